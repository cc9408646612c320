// SPDX-License-Identifier: Apache-2.0
// Ranks that have a GPU each, on one host or as if on several, that know the C ABI.
#pragma once

#include <functional>
#include <vector>

#include "tests/multi/abi_trial.h"
#include "tests/multi/abi_world.h"
#include "tests/support/gpu.h"
#include "tests/support/temp_folder.h"

namespace echelon::test {

// What a rank of such a test has.
struct GpuRank {
  int rank = 0, size = 1;
  const Gpu& gpu;
  ech_comm* comm = nullptr;
  const World& world;
};

struct GpuWorld {
  std::vector<int> hosts;  // GPUs of each: {2, 2}
  bool shared = false;     // all ranks of a host use its first GPU
  std::vector<std::pair<const char*, const char*>> environment = {};  // of every rank
  std::vector<std::pair<const char*, const char*>> of_rank_1 = {};    // and of that one
  // What a rank hears that is still making its communicator when that one fails; nullptr: nothing.
  const char* heard = nullptr;
  double timeout = kPatience;
  std::vector<std::vector<std::pair<const char*, const char*>>> of_host = {};  // its ranks
  ech_log_fn log = nullptr;
};

// How many there are here; the stand-in has as many as a test asks for.
int count_gpus();

// `body` in a process per GPU, which destroys the communicator with success unless `body` did that
// or lets it fail. Skips the calling test where there can be no such world; the stand-in has any
// number of GPUs. On a machine with too few, ranks share them by turns: NCCL is told to allow it,
// and one that does not know how (before 2.30) that each rank is on a host of its own.
void run_on_gpus(const GpuWorld& world, const std::function<void(GpuRank&)>& body);

// A trial whose buffers are on the GPU.
class GpuTrial : public Trial {
 public:
  GpuTrial(const GpuRank& rank, const Case& c);
  ~GpuTrial();

  ech_status run_in(CudaStream stream);
  void check();  // what is on the GPU by now

 private:
  std::byte* there(const std::byte* here);

  const Gpu& gpu_;
  const CudaStream stream_;
  const std::byte* const send_here_;
  std::byte* const recv_here_;
  CudaPointer in_there_ = 0, out_there_ = 0;
};

// Cases on the GPUs, and whether their results are right.
enum class Form { kBlocking, kNonblocking, kInStream };
void run_and_check(const GpuRank& rank, const Case& c, Form form);
void all_types_and_operations(GpuRank& rank);
void all_counts(GpuRank& rank);

ech_counters counters_of(const GpuRank& rank);

// A fabric file in `folder` with a network of a speed that is known and narrow: small buffers go in
// one call of NCCL over all hosts, large ones in calls inside hosts and messages.
std::string narrow_network(const TempFolder& folder);

// What ech_comm_explain says of an allreduce of so many f32 on the GPUs.
std::string explanation(const GpuRank& rank, std::size_t count);

}  // namespace echelon::test
