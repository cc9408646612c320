// SPDX-License-Identifier: Apache-2.0
#include "tools/topo.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/nvml.h"
#include "lib/fabric/place.h"
#include "lib/options.h"
#include "tools/command_line.h"
#include "transports/cuda/driver.h"
#include "transports/nccl/library.h"

namespace echelon::tools {
namespace {

struct TopoOptions {
  std::string file;
  std::string xml;
  std::string format = "text";
  int ranks = -1;  // none are placed
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
      options.ranks < 0 ? to_text(fabric) : to_text(fabric, spread_ranks(fabric, options.ranks));
  return here ? text + gpu_links() + gpu_libraries() : text;
}

}  // namespace

void add_topo(Program& program) {
  const auto options = std::make_shared<TopoOptions>();
  TopoOptions& o = *options;
  Command topo = program.command("topo", "Show the fabric: of this machine, or of a file");
  topo.option("--file FILE",
              "Fabric file (TOML or JSON); with --xml, or when it names no hosts, it overrides "
              "what was discovered",
              into(o.file));
  topo.option("--xml FILE", "Topology of a machine as hwloc or NCCL wrote it", into(o.xml));
  topo.option("--format text|json|toml", "Output format [text]",
              one_word(o.format, {"text", "json", "toml"}));
  topo.option("-n,--ranks N", "Place this many ranks and show them (0: all)",
              whole_number(o.ranks, 0, 1 << 20));
  topo.examples(kExamples);
  topo.action([options] {
    fmt::print("{}", show(*options));
    return 0;
  });
}

}  // namespace echelon::tools
