// SPDX-License-Identifier: Apache-2.0
// The small languages: patterns, cpu lists and masks, quantities, PCI addresses, Slurm addresses.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/pattern.h"
#include "lib/fabric/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view head = text.substr(0, size / 2), tail = text.substr(size / 2);
  (void)matches(head, tail);
  if (const auto names = expand(text, 100))
    for (const std::string& name : *names)
      if (!matches(text, name)) std::abort();
  if (const auto cpus = CpuSet::parse(text))
    if (CpuSet::parse(cpus->list()) != cpus) std::abort();
  (void)CpuSet::parse_mask(text);
  if (const auto v = parse_bandwidth(text))
    if (parse_bandwidth(format_bandwidth(*v)) != v) std::abort();
  if (const auto v = parse_time(text))
    if (parse_time(format_time(*v)) != v) std::abort();
  if (const auto v = parse_size(text))
    if (parse_size(format_size(*v)) != v) std::abort();
  const std::string pci = normal_pci_address(text);
  if (!pci.empty() && normal_pci_address(pci) != pci) std::abort();
  try {
    Fabric fabric;
    fabric.hosts.resize(2);
    add_slurm_racks(fabric, {std::string(head), std::string(tail)}, "switch.switch.node");
    add_slurm_racks(fabric, {std::string(head)}, tail);
  } catch (const Error&) {
  }
  return 0;
}
