// SPDX-License-Identifier: Apache-2.0
#include "tools/topo.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/nvml.h"
#include "lib/fabric/place.h"
#include "lib/options.h"
#include "transports/cuda/driver.h"
#include "transports/nccl/library.h"

namespace echelon {
namespace {

struct TopoOptions {
  std::string file;
  std::string xml;
  std::string format = "text";
  std::optional<int> ranks;
};

Fabric load(const TopoOptions& options) {
  if (!options.file.empty() && options.xml.empty()) {
    const FabricFile file = load_fabric_file(options.file);
    Fabric fabric = expand(file);
    if (!fabric.hosts.empty()) return fabric;
    // A file that only overrides: show it on this machine.
    fabric.hosts.push_back(discover_host());
    apply(file, fabric);
    return fabric;
  }
  Fabric fabric;
  fabric.hosts.push_back(options.xml.empty() ? discover_host() : load_topology_xml(options.xml));
  if (fabric.hosts[0].name.empty()) fabric.hosts[0].name = "host";
  if (!options.file.empty()) apply(load_fabric_file(options.file), fabric);
  return fabric;
}

std::string gpu_links() {
  try {
    return fmt::format("gpu links: as NVML tells, driver {}\n", nvml_driver_version());
  } catch (const Error& e) {
    return fmt::format("gpu links: none known: {}\n", e.what());
  }
}

std::string gpu_libraries() {
  const CudaDriver* driver = cuda_driver();
  if (driver == nullptr) return "gpu buffers: none: " + cuda_absence() + "\n";
  const std::string path = read_options([](const char* name) { return std::getenv(name); }).nccl;
  const NcclLibrary* nccl = nccl_library(path);
  return fmt::format("gpu buffers: CUDA {}, NCCL {}\n", cuda_version_text(driver->version),
                     nccl != nullptr ? nccl_version_text(nccl->version) : nccl_absence(path));
}

constexpr const char* kExamples =
    "examples:\n"
    "  echelon topo                                       this machine\n"
    "  echelon topo --file fabrics/dgx-a100.toml -n 16    a fabric file, with 16 ranks\n"
    "  echelon topo --format toml > mine.toml             to correct by hand\n";

std::string show(const TopoOptions& options) {
  const Fabric fabric = load(options);
  if (options.format == "json") return to_json(fabric);
  if (options.format == "toml") return to_toml(fabric);
  const bool here = options.file.empty() && options.xml.empty();
  const std::string text =
      options.ranks ? to_text(fabric, spread_ranks(fabric, *options.ranks)) : to_text(fabric);
  return here ? text + gpu_links() + gpu_libraries() : text;
}

}  // namespace

void add_topo(CLI::App& app) {
  const auto options = std::make_shared<TopoOptions>();
  CLI::App* topo = app.add_subcommand("topo", "Show the fabric: of this machine, or of a file");
  topo->add_option(
      "--file", options->file,
      "Fabric file (TOML or JSON); with --xml, or when it names no hosts, it overrides "
      "what was discovered");
  topo->add_option("--xml", options->xml, "Topology of a machine as hwloc or NCCL wrote it");
  topo->add_option("--format", options->format, "Output format")
      ->check(CLI::IsMember({"text", "json", "toml"}))
      ->capture_default_str();
  topo->add_option("-n,--ranks", options->ranks, "Place this many ranks and show them (0: all)")
      ->check(CLI::Range(0, 1 << 20));
  topo->footer(kExamples);
  topo->callback([options] { fmt::print("{}", show(*options)); });
}

}  // namespace echelon
