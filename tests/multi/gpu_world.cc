// SPDX-License-Identifier: Apache-2.0
#include "tests/multi/gpu_world.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>

#include "tests/support/ranks.h"
#include "transports/cuda/device.h"
#include "transports/cuda/kernels.h"

namespace echelon::test {
namespace {

// Ranks are on one host when they have its name.
void move_to_host(int host) {
  const std::string name = "gpuhost" + std::to_string(host);
  if (unshare(CLONE_NEWUTS) != 0 || sethostname(name.data(), name.size()) != 0)
    throw std::runtime_error("cannot take another host name");
}

// The host of a rank and its index there.
std::pair<int, int> place_of(const GpuWorld& world, int rank) {
  int host = 0;
  for (; rank >= world.hosts[host]; ++host) rank -= world.hosts[host];
  return {host, rank};
}

// That of a rank with this index on its host, where a host has up to `most` ranks.
int gpu_of(int index, int rank, int most) {
  const int count = count_gpus();
  if (count >= most) return index;
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
  return index % count;
}

void be_rank(const GpuWorld& gpus, const World& world, const Place& place,
             const std::function<void(GpuRank&)>& body) {
  const auto [host, index] = place_of(gpus, place.rank);
  setenv("STANDIN_CUDA_DEVICES", std::to_string(std::ranges::max(gpus.hosts)).c_str(), 1);
  for (const auto& [name, value] : gpus.environment) setenv(name, value, 1);
  if (static_cast<std::size_t>(host) < gpus.of_host.size())
    for (const auto& [name, value] : gpus.of_host[host]) setenv(name, value, 1);
  for (const auto& [name, value] : gpus.of_rank_1)
    if (place.rank == 1) setenv(name, value, 1);
  if (gpus.hosts.size() > 1) move_to_host(host);
  const Gpu gpu(gpus.shared ? 0 : gpu_of(index, place.rank, std::ranges::max(gpus.hosts)));
  ech_comm_options options = options_with(gpus.timeout);
  options.log = gpus.log;
  Comm comm;
  try {
    comm = make_comm(world, place, options);
  } catch (const std::exception& e) {
    if (gpus.heard == nullptr || std::string_view(e.what()).find(gpus.heard) == std::string::npos)
      throw;
    return;
  }
  GpuRank rank{place.rank, place.size, gpu, comm.get(), world};
  body(rank);
  if (rank.comm == nullptr)
    comm.reset();  // whatever has become of it
  else
    close(std::move(comm));
}

// In a process of its own: one that uses CUDA cannot be forked.
int ask_for_gpus() {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    const CudaDriver* const cuda = cuda_driver();
    const bool there = cuda != nullptr && cuda->init(0) == kCudaSuccess &&
                       cuda->device_get_count(&count) == kCudaSuccess;
    _exit(there ? count : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace

int count_gpus() {
  static const int count = on_standin() ? 64 : ask_for_gpus();
  return count;
}

void run_on_gpus(const GpuWorld& gpus, const std::function<void(GpuRank&)>& body) {
  if (kernel_image().empty()) GTEST_SKIP() << "this build has no GPU kernels: nvcc was not there";
  if (gpus.hosts.size() > 1 && geteuid() != 0) GTEST_SKIP() << "host names are root's";
  if (count_gpus() == 0) GTEST_SKIP() << "there is no GPU";
  const World world;
  const int size = std::accumulate(gpus.hosts.begin(), gpus.hosts.end(), 0);
  run_processes(
      size,
      [&](int rank) {
        be_rank(gpus, world, {rank, size}, body);
      },
      std::chrono::seconds(100));
}

GpuTrial::GpuTrial(const GpuRank& rank, const Case& c)
    : Trial(rank.comm, c),
      gpu_(rank.gpu),
      stream_(gpu_.stream()),
      send_here_(send_),
      recv_here_(recv_),
      in_there_(gpu_.upload(in_.with_guards())),
      out_there_(gpu_.upload(out_.with_guards())) {
  if (send_ != nullptr) send_ = there(send_);
  if (recv_ != nullptr) recv_ = there(recv_);
}

GpuTrial::~GpuTrial() {
  gpu_->mem_free(in_there_);
  gpu_->mem_free(out_there_);
  gpu_->stream_destroy(stream_);
}

std::byte* GpuTrial::there(const std::byte* here) {
  const auto& in = in_.with_guards();
  const bool of_input = here >= in.data() && here < in.data() + in.size();
  const std::byte* begin = of_input ? in.data() : out_.with_guards().data();
  return reinterpret_cast<std::byte*>((of_input ? in_there_ : out_there_) + (here - begin));
}

ech_status GpuTrial::run_in(CudaStream s) {
  const Case& c = case_;
  switch (c.collective) {
    case ECH_ALLREDUCE:
      return ech_allreduce_on_stream(send_, recv_, c.count, c.dtype, c.op, comm_, s);
    case ECH_REDUCE_SCATTER:
      return ech_reduce_scatter_on_stream(send_, recv_, c.count, c.dtype, c.op, comm_, s);
    case ECH_ALLGATHER:
      return ech_allgather_on_stream(send_, recv_, c.count, c.dtype, comm_, s);
    case ECH_BROADCAST:
      return ech_broadcast_on_stream(send_, recv_, c.count, c.dtype, c.root, comm_, s);
    case ECH_REDUCE:
      return ech_reduce_on_stream(send_, recv_, c.count, c.dtype, c.op, c.root, comm_, s);
    default:
      return ech_barrier_on_stream(comm_, s);
  }
}

void GpuTrial::check() {
  for (const auto& [to, from] : {std::pair(&in_, in_there_), std::pair(&out_, out_there_)}) {
    auto& bytes = to->with_guards();
    gpu_.check(gpu_->memcpy_dtoh_async(bytes.data(), from, bytes.size(), stream_),
               "cuMemcpyDtoHAsync");
    gpu_.wait(stream_);
  }
  const std::byte* const send_there = std::exchange(send_, send_here_);
  std::byte* const recv_there = std::exchange(recv_, recv_here_);
  Trial::check();
  send_ = send_there;
  recv_ = recv_there;
}

void run_and_check(const GpuRank& rank, const Case& c, Form form) {
  GpuTrial trial(rank, c);
  if (form == Form::kBlocking) {
    ASSERT_TRUE(ok(trial.run())) << describe(c);
  } else if (form == Form::kNonblocking) {
    ech_request* request = nullptr;
    ASSERT_TRUE(ok(trial.start(&request))) << describe(c);
    int done = 0;
    while (done == 0) ASSERT_TRUE(ok(ech_test(request, &done))) << describe(c);
    ASSERT_TRUE(ok(ech_wait(&request))) << describe(c);
  } else {
    const CudaStream stream = rank.gpu.stream();
    ASSERT_TRUE(ok(trial.run_in(stream))) << describe(c);
    rank.gpu.wait(stream);
    rank.gpu->stream_destroy(stream);
  }
  trial.check();
}

void all_types_and_operations(GpuRank& rank) {
  for_types_and_operations(
      rank.size, [&](const Case& c, int number) { run_and_check(rank, c, Form(number % 3)); });
}

void all_counts(GpuRank& rank) {
  int turn = 0;
  for (std::size_t count : {1, 2, 7, 63, 4099, 65537, 700'001})
    for (ech_collective collective : kWithData)
      for (bool in_place : {false, true})
        run_and_check(rank, {collective, count, ECH_FLOAT32, ECH_SUM, rank.size - 1, in_place},
                      Form(++turn % 3));
}

ech_counters counters_of(const GpuRank& rank) {
  ech_counters counters{};
  counters.struct_size = sizeof counters;
  EXPECT_TRUE(ok(ech_comm_counters(rank.comm, &counters)));
  return counters;
}

std::string narrow_network(const TempFolder& folder) {
  std::string file = folder.file("narrow.toml");
  std::ofstream(file) << "[tier.cluster]\nkind = \"ethernet\"\nbandwidth = \"100 MB/s\"\n"
                         "latency = \"1 us\"\n";
  return file;
}

std::string explanation(const GpuRank& rank, std::size_t count) {
  char* text = nullptr;
  ech_question question = ECH_QUESTION_INIT;
  question.count = count;
  question.dtype = ECH_FLOAT32;
  question.memory = ECH_MEMORY_CUDA;
  EXPECT_TRUE(ok(ech_comm_explain(rank.comm, &question, ECH_TEXT, &text)));
  std::string copy = text == nullptr ? "" : text;
  ech_text_free(text);
  return copy;
}

}  // namespace echelon::test
