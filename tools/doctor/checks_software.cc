// SPDX-License-Identifier: Apache-2.0
// Checks of versions and settings.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "echelon/echelon.h"
#include "tools/doctor/checks.h"
#include "transports/cuda/driver.h"
#include "transports/nccl/library.h"

namespace echelon::doctor {
namespace {

std::string program_version() {
  return fmt::format("{}.{}.{}", ECH_VERSION_MAJOR, ECH_VERSION_MINOR, ECH_VERSION_PATCH);
}

bool is_version(const std::string& word) {
  const auto part = [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; };
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0 &&
         word.find('.') != std::string::npos && std::all_of(word.begin(), word.end(), part);
}

Finding unknown_settings(const std::vector<UnknownVariable>& unknown) {
  std::string found;
  for (const UnknownVariable& variable : unknown) {
    found += (found.empty() ? "" : ", ") + variable.name;
    if (!variable.nearest.empty()) found += fmt::format(" (is {} meant?)", variable.nearest);
  }
  return costs("set but not known: " + found, "nothing reads it",
               "correct the name or unset it; docs/environment.md lists all");
}

}  // namespace

std::string nccl_version_text(const View& view) {
  return view.probes.nccl > 0 ? echelon::nccl_version_text(view.probes.nccl) : std::string();
}

std::string cuda_driver(const View& view) {
  std::istringstream words(view.text("/proc/driver/nvidia/version"));
  std::string word;
  while (words >> word)
    if (is_version(word)) return word;
  return {};
}

Finding check_echelon(const View& view) {
  const std::string program = program_version();
  if (view.probes.library == program) return ok(program);
  return broken(fmt::format("program {}, library {}", program, view.probes.library),
                "ranks of different versions refuse each other",
                "remove the old libechelon.so, or correct LD_LIBRARY_PATH");
}

Finding check_settings(const View& view) {
  if (!view.probes.options_error.empty()) {
    return broken(view.probes.options_error, "no communicator can be made with this setting",
                  "correct the variable or unset it; docs/environment.md lists all");
  }
  if (!view.probes.unknown.empty()) return unknown_settings(view.probes.unknown);
  std::string found;
  for (const auto& [name, value] : view.probes.variables)
    found += fmt::format("{}{}={}", found.empty() ? "" : " ", name, value);
  return ok(found.empty() ? "no ECHELON_* or UCX_* variable is set" : found);
}

Finding check_hwloc(const View& view) {
  if (!view.probes.hwloc.empty()) return ok(view.probes.hwloc);
  return costs("not in this build",
               "without the PCI tree a rank may use a NIC that is not its nearest",
               "build with -Dhwloc=enabled (libhwloc-dev)");
}

Finding check_cuda(const View& view) {
  const Probes& probes = view.probes;
  const std::size_t gpus = probes.fabric.gpus.size();
  const std::string driver = cuda_driver(view);
  // What the library needs of the kernel it says itself, and not everywhere by that file.
  if (probes.cuda > 0) {
    return ok(fmt::format("{}CUDA {}, {}", driver.empty() ? "" : "driver " + driver + ", ",
                          cuda_version_text(probes.cuda), counted(gpus, "GPU")));
  }
  if (!driver.empty()) {
    return costs(
        fmt::format("driver {}, {}, but {}", driver, counted(gpus, "GPU"), probes.cuda_absence),
        "programs cannot use the GPUs",
        "install the driver's libcuda.so.1; start a container with the NVIDIA runtime");
  }
  if (gpus == 0) return ok("no driver and no GPU: " + probes.cuda_absence);
  return costs(
      fmt::format("{}, but no NVIDIA driver: {}", counted(gpus, "GPU"), probes.cuda_absence),
      "programs cannot use the GPUs", "install or load the driver: modprobe nvidia; nvidia-smi");
}

Finding check_nccl(const View& view) {
  const std::string version = nccl_version_text(view);
  return ok(version.empty() ? "none: " + view.probes.nccl_absence : version);
}

Finding check_nvml(const View& view) {
  const Probes& probes = view.probes;
  const std::size_t links = probes.fabric.nvlinks.size();
  if (!probes.nvml.empty())
    return ok(fmt::format("driver {}, {}", probes.nvml,
                          links == 0 ? "no NVLink" : "NVLinks between " + counted(links, "pair")));
  if (probes.fabric.gpus.empty()) return ok("none: " + probes.nvml_absence);
  return costs(
      fmt::format("{}, but {}", counted(probes.fabric.gpus.size(), "GPU"), probes.nvml_absence),
      "links between GPUs are not known, and plans guess what they give",
      "install the driver's libnvidia-ml.so.1; start a container with the NVIDIA runtime "
      "and NVIDIA_DRIVER_CAPABILITIES=compute,utility");
}

}  // namespace echelon::doctor
