// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/probe.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "echelon/echelon.h"
#include "lib/base/error.h"
#include "lib/bootstrap/address.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/place.h"
#include "tools/doctor/attempts.h"

namespace echelon::doctor {
namespace {

constexpr double kLoopbackSeconds = 3;

Limit limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return {};
  const auto value = [](rlim_t v) { return v == RLIM_INFINITY ? Limit::kUnlimited : v; };
  return {value(limit.rlim_cur), value(limit.rlim_max)};
}

int usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

Folder look_into(const char* folder) {
  struct statvfs room {};
  if (statvfs(folder, &room) != 0) return {};
  const bool writable = access(folder, W_OK) == 0;
  return {true, writable, room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize};
}

Reached loopback() {
  try {
    const OpenPort port = open_port();
    const Target target{"127.0.0.1", port.port};
    return reach({&target, 1}, kLoopbackSeconds)[0];
  } catch (const Error& e) {
    return {Outcome::kFailed, "127.0.0.1", e.what()};
  }
}

std::string library_version() {
  int major = 0, minor = 0, patch = 0;
  ech_version(&major, &minor, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

void read_settings(Probes& probes) {
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry = *e, name = entry.substr(0, entry.find('='));
    const bool ours =
        name.starts_with("ECHELON_") ||
        std::ranges::find(option_table(), name, &OptionRow::variable) != option_table().end();
    if ((!ours && !name.starts_with("UCX_")) || name.size() == entry.size()) continue;
    const bool secret = name == "ECHELON_SECRET";
    probes.variables[std::string(name)] = secret ? "(secret)" : entry.substr(name.size() + 1);
  }
  probes.unknown = unknown_variables(environ);
  try {
    probes.options = read_options([](const char* name) { return std::getenv(name); });
    if (!probes.options.interface_name.empty()) interface_address(probes.options.interface_name);
  } catch (const Error& e) {
    probes.options_error = e.what();
  }
}

// What was said of a library that is loaded at run time.
void look_for(const Attempt& tried, int& version, std::string& absence) {
  if (tried.good()) {
    version = std::atoi(tried.said.c_str());
  } else {
    absence = tried.said.empty() ? text_of(tried) : tried.said;
  }
}

// As a communicator sees this host.
void discover(Probes& probes) {
  try {
    Fabric fabric;
    fabric.hosts.push_back(discover_host());
    probes.fabric = fabric.hosts[0];
    if (probes.options.fabric_file.empty()) return;
    apply(load_fabric_file(probes.options.fabric_file), fabric);
    probes.fabric = fabric.hosts[0];
  } catch (const Error& e) {
    probes.fabric_error = e.what();
  }
}

std::vector<std::string> devices_of(const Probes& probes) {
  const std::string& nics = probes.options.nics;
  return nics.empty() ? ucx_devices(probes.fabric, usable_nics(probes.fabric))
                      : named_devices(probes.fabric, nics, "ECHELON_NICS");
}

void look_for_devices(Probes& probes) {
  try {
    probes.devices = devices_of(probes);
  } catch (const Error& e) {
    if (probes.options_error.empty()) probes.options_error = e.what();
  }
}

// As a communicator over several hosts opens it.
UcxConfig ucx_config(const Probes& probes) {
  UcxConfig config;
  config.tls = probes.options.ucx_tls;
  config.devices = probes.devices;
  config.user_set = [&](std::string_view name) {
    return probes.variables.contains(std::string(name));
  };
  return config;
}

// In processes of their own: UCX ends a process that has no descriptors left.
void look_at_ucx(Probes& probes) {
  probes.ucx = ucx_versions();
  if (!ucx_available()) return;
  probes.ways = resources_from(try_ucx_resources().said);
  const Attempt opened = try_ucx(ucx_config(probes));
  if (opened.good()) return;
  probes.ucx_error = opened.said.empty() ? "ucx: " + text_of(opened) : opened.said;
}

}  // namespace

View look_at_this_machine(const Job& job) {
  View view{"", job, {}};
  Probes& probes = view.probes;
  probes.memfd = try_memfd();
  probes.descriptor_of_other = try_descriptor_of_other();
  probes.memory_of_other = try_memory_of_other();
  utsname kernel{};
  if (uname(&kernel) == 0) probes.kernel = kernel.release;
  probes.cpus = usable_cpus();
  probes.descriptors = limit_of(RLIMIT_NOFILE);
  probes.locked_memory = limit_of(RLIMIT_MEMLOCK);
  probes.shm = look_into("/dev/shm");
  probes.library = library_version();
  probes.hwloc = hwloc_version();
  read_settings(probes);
  look_for(try_cuda(), probes.cuda, probes.cuda_absence);
  look_for(try_nccl(probes.options.nccl), probes.nccl, probes.nccl_absence);
  const Attempt nvml = try_nvml();
  (nvml.good() ? probes.nvml : probes.nvml_absence) = nvml.said.empty() ? text_of(nvml) : nvml.said;
  discover(probes);
  look_for_devices(probes);
  probes.loopback = loopback();
  look_at_ucx(probes);
  return view;
}

}  // namespace echelon::doctor
