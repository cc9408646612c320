// SPDX-License-Identifier: Apache-2.0
// One rank of collectives_test:
//   cluster_rank BYTES ITERATIONS
// sums BYTES of f32 exactly ITERATIONS times, checks every element, and prints on rank 0 the
// seconds that each took, the first line being for the first one.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "echelon/echelon.h"

namespace {

int report(const char* what) {
  fmt::print(stderr, "{}: {}\n", what, ech_last_error());
  return 1;
}

float input(int rank, std::size_t i) { return static_cast<float>((rank + 1) * (i % 1009)); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::size_t count = std::strtoull(argv[1], nullptr, 10) / sizeof(float);
  const int iterations = std::atoi(argv[2]);
  ech_comm* comm = nullptr;
  if (ech_comm_create(&comm, nullptr) != ECH_OK) return report("create");
  int rank = 0, size = 0;
  ech_comm_rank(comm, &rank);
  ech_comm_size(comm, &size);
  std::vector<float> send(count), recv(count);
  for (std::size_t i = 0; i < count; ++i) send[i] = input(rank, i);
  std::size_t wrong = 0;
  for (int k = 0; k < iterations; ++k) {
    std::fill(recv.begin(), recv.end(), -1.0F);
    if (ech_barrier(comm) != ECH_OK) return report("barrier");
    const auto begin = std::chrono::steady_clock::now();
    if (ech_allreduce(send.data(), recv.data(), count, ECH_FLOAT32, ECH_SUM, comm) != ECH_OK)
      return report("allreduce");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (rank == 0) fmt::print("{}\n", took.count());
    const float ranks = static_cast<float>(size * (size + 1) / 2);
    for (std::size_t i = 0; i < count; ++i)
      wrong += recv[i] != ranks * static_cast<float>(i % 1009);
  }
  std::fflush(stdout);
  if (ech_comm_destroy(comm) != ECH_OK) return report("destroy");
  if (wrong > 0) fmt::print(stderr, "rank {}: {} wrong elements\n", rank, wrong);
  return wrong > 0 ? 1 : 0;
}
