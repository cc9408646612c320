// SPDX-License-Identifier: Apache-2.0
// Where ranks go: -H, host files and Slurm's numbers of tasks. The first byte says which; what is
// understood is filled with ranks.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "tools/run_hosts.h"
#include "tools/run_remote.h"

namespace {

using namespace echelon;
using namespace echelon::run;

void expect_filled(const std::vector<HostSlots>& hosts, int n, Placement placement) {
  const auto ranks = place(hosts, n, placement);
  std::size_t placed = 0;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    if (ranks[h].size() > static_cast<std::size_t>(hosts[h].slots)) std::abort();
    placed += ranks[h].size();
  }
  if (n > 0 && placed != static_cast<std::size_t>(n)) std::abort();
}

void parse(char kind, std::string_view text) {
  if (kind % 3 == 2) {
    for (const int tasks : parse_tasks_per_node(text))
      if (tasks < 1) std::abort();
    return;
  }
  const auto hosts = kind % 3 == 0 ? parse_host_list(text) : parse_hostfile(text, "input");
  if (hosts.empty()) std::abort();
  for (const HostSlots& host : hosts)
    if (host.name.empty() || host.name[0] == '-' || host.slots < 1) std::abort();
  expect_filled(hosts, 1, Placement::kBySlot);
  expect_filled(hosts, 7, Placement::kByHost);
  expect_filled(hosts, 0, Placement::kBySlot);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    parse(static_cast<char>(data[0] & 0x7f), {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
