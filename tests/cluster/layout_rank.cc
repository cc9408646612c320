// SPDX-License-Identifier: Apache-2.0
// One rank of layout_test: says where it is, in the communicator of all and in one of those that
// have the same local rank, as a line of JSON.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "echelon/echelon.hpp"

namespace {

std::string places(const ech::Communicator& comm) {
  return fmt::format(
      R"({{"rank": {}, "size": {}, "local_rank": {}, "local_size": {}, "host": {}, "hosts": {}}})",
      comm.rank(), comm.size(), comm.local_rank(), comm.local_size(), comm.host_index(),
      comm.host_count());
}

int run() {
  ech::Communicator all;
  // Across the hosts, the last rank first.
  ech::Communicator part = all.split(all.local_rank(), -all.rank());
  std::int32_t mine = all.rank(), sum = 0;
  part.allreduce(&mine, &sum, 1);
  fmt::print("{{\"all\": {}, \"part\": {}, \"sum\": {}}}\n", places(all), places(part), sum);
  std::fflush(stdout);
  all.destroy();  // the part goes on without it
  part.barrier();
  part.destroy();
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
