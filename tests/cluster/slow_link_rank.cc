// SPDX-License-Identifier: Apache-2.0
// One rank of slow_link_test:
//   slow_link_rank BYTES ITERATIONS LATE_RANK
// sums BYTES of f32 so often, or until plans were made again; LATE_RANK (-1: none) comes 0.1 s late
// to each. Prints one line of JSON: after which iterations the prediction for the next one had
// changed, what `ran`, and the statistics.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "echelon/echelon.hpp"

namespace {

constexpr useconds_t kLate = 100'000;

double predicted(ech::Communicator& comm, std::size_t count) {
  const std::string text = comm.explain<float>(ECH_ALLREDUCE, count, ECH_SUM, ECH_JSON);
  return nlohmann::json::parse(text).at("predicted_us").get<double>();
}

void run(std::size_t count, int iterations, int late) {
  ech::Communicator comm;
  const int rank = comm.rank(), size = comm.size();
  const std::vector<float> send(count, static_cast<float>(rank + 1));
  std::vector<float> recv(count);
  nlohmann::json said = {{"rank", rank}, {"changes", nlohmann::json::array()}, {"wrong", 0}};
  const double first = predicted(comm, count);
  double last = first;
  for (int i = 0; i < iterations; ++i) {
    if (rank == late) usleep(kLate);
    comm.allreduce(send.data(), recv.data(), count);
    std::size_t wrong = 0;
    for (const float x : recv) wrong += x != static_cast<float>(size * (size + 1) / 2);
    said["wrong"] = said["wrong"].get<std::size_t>() + wrong;
    const double now = predicted(comm, count);
    if (now != last) said["changes"].push_back(i);
    last = now;
    said["ran"] = i + 1;
    if (comm.statistics().numbers.replans > 0) break;  // on all ranks alike
  }
  const ech::Statistics found = comm.statistics();
  said["factor"] = last / first;
  said["fabric"] = comm.fabric();
  said["slowest_rank"] = found.numbers.slowest_rank;
  said["lateness"] = found.numbers.lateness;
  said["slowest_from"] = found.numbers.slowest_from;
  said["slowest_to"] = found.numbers.slowest_to;
  said["measured"] = found.numbers.measured;
  said["assumed"] = found.numbers.assumed;
  said["replans"] = found.numbers.replans;
  said["throughputs"] = found.throughputs;
  fmt::print("{}\n", said.dump());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    run(std::strtoull(argv[1], nullptr, 10) / sizeof(float), std::atoi(argv[2]),
        std::atoi(argv[3]));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return 0;
}
