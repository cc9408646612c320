// SPDX-License-Identifier: Apache-2.0
// How communicators of the stand-in for libnccl.so.2 begin, fail, end, and make others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/standin/standin_ranks.h"

namespace echelon::test {
namespace {

using namespace std::chrono_literals;

void begin_nonblocking(Rank& r, int rank, int size) {
  NcclConfig config;
  config.blocking = 0;
  EXPECT_EQ(nccl().comm_init_rank_config(&r.comm, size, r.id, rank, &config), kNcclInProgress);
}

TEST(StandinNccl, ANonblockingCommunicatorWorksInTheBackground) {
  in_ranks(2, [](Rank& r) {
    setenv("STANDIN_NCCL_DELAY", "0.05", 1);
    begin_nonblocking(r, r.rank, r.size);
    const CudaPointer buffer = r.gpu.upload(std::vector<int>{1});
    const auto sum = [&] {
      return nccl().all_reduce(at(buffer), at(buffer), 1, kNcclInt32, kNcclSum, r.comm, r.stream);
    };
    EXPECT_EQ(sum(), kNcclInvalidArgument) << "before it is there";
    wait_until_done(r.comm);
    EXPECT_EQ(sum(), kNcclInProgress);
    EXPECT_EQ(r.gpu->stream_query(r.stream), kCudaSuccess) << "nothing is in the stream yet";
    wait_until_done(r.comm);
    r.gpu.wait(r.stream);
    EXPECT_EQ(r.gpu.download<int>(buffer, 1)[0], 2);
    EXPECT_EQ(nccl().comm_finalize(r.comm), kNcclInProgress);
    wait_until_done(r.comm);
    check(nccl().comm_destroy(r.comm));
  });
}

TEST(StandinNccl, AbortEndsWhatWaitsForARankThatIsGone) {
  in_ranks(2, [](Rank& r) {
    r.connect();
    if (r.rank == 1) return;
    const CudaPointer buffer = r.gpu.upload(std::vector<int>{1});
    check(nccl().all_reduce(at(buffer), at(buffer), 1, kNcclInt32, kNcclSum, r.comm, r.stream));
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(r.gpu->stream_query(r.stream), kCudaNotReady);
    EXPECT_EQ(result_of(r.comm), kNcclSuccess) << "GPUs of a host do not notice";
    check(nccl().comm_abort(r.comm));
    r.gpu.wait(r.stream);
    EXPECT_EQ(nccl().comm_abort(r.comm), kNcclInvalidArgument);
  });
}

TEST(StandinNccl, AbortEndsTheSearchForTheOthers) {
  in_ranks(1, [](Rank& r) {
    begin_nonblocking(r, 1, 2);
    check(nccl().comm_abort(r.comm));
  });
}

TEST(StandinNccl, AbortEndsACallThatHasNotBeenTakenUp) {
  in_ranks(1, [](Rank& r) {
    setenv("STANDIN_NCCL_DELAY", "0.05", 1);
    begin_nonblocking(r, r.rank, r.size);
    wait_until_done(r.comm);
    const CudaPointer buffer = r.gpu.upload(std::vector<int>{1});
    const CudaStream stream = r.gpu.stream();
    EXPECT_EQ(nccl().all_reduce(at(buffer), at(buffer), 1, kNcclInt32, kNcclSum, r.comm, stream),
              kNcclInProgress);
    check(nccl().comm_abort(r.comm));
    r.gpu.check(r.gpu->stream_destroy(stream), "cuStreamDestroy");
    std::this_thread::sleep_for(100ms);  // were it put into the stream still, the process would end
  });
}

TEST(StandinNccl, ErrorsAreInjected) {
  run_processes(1, [](int) {
    setenv("STANDIN_NCCL_FAIL", "async:2=6,ncclAllReduce:3=2", 1);
    Rank r{.rank = 0, .size = 1, .id = SharedId().get(0)};
    r.connect();
    const CudaPointer buffer = r.gpu.upload(std::vector<int>{1});
    const auto sum = [&] {
      return nccl().all_reduce(at(buffer), at(buffer), 1, kNcclInt32, kNcclSum, r.comm, r.stream);
    };
    check(sum());
    r.gpu.wait(r.stream);
    EXPECT_EQ(result_of(r.comm), kNcclSuccess);
    check(sum());
    EXPECT_EQ(sum(), kNcclSystemError);
    while (result_of(r.comm) == kNcclSuccess) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(result_of(r.comm), kNcclRemoteError);
    EXPECT_EQ(r.gpu->stream_query(r.stream), kCudaNotReady);
    check(nccl().comm_abort(r.comm));
    r.gpu.wait(r.stream);
  });
}

TEST(StandinNccl, RanksThatCallDifferentThingsEndWithACry) {
  const SharedId id;
  run_processes(2, [&](int rank) {
    const auto sum = [&] {
      alarm(60);  // a process of a death test outlives a test that is killed
      Rank r{.rank = rank, .size = 2, .id = id.get(rank)};
      r.connect();
      const std::size_t count = 4 + static_cast<std::size_t>(rank);
      const CudaPointer buffer = r.gpu.memory(count * 4);
      check(
          nccl().all_reduce(at(buffer), at(buffer), count, kNcclInt32, kNcclSum, r.comm, r.stream));
      if (r.rank == 0) r.gpu.wait(r.stream);
      std::this_thread::sleep_for(50ms);
      check(nccl().comm_abort(r.comm));
    };
    if (rank == 1) return sum();
    EXPECT_DEATH(sum(), "rank 0 calls allreduce of 4.*; rank 1 calls allreduce of 5");
  });
}

int sum_of_ones(Rank& r, NcclComm comm) {
  const CudaPointer buffer = r.gpu.upload(std::vector<int>{1});
  check(nccl().all_reduce(at(buffer), at(buffer), 1, kNcclInt32, kNcclSum, comm, r.stream));
  r.gpu.wait(r.stream);
  return r.gpu.download<int>(buffer, 1)[0];
}

TEST(StandinNccl, SplitMakesParts) {
  in_connected_ranks(3, [](Rank& r) {
    NcclComm part = nullptr;
    check(nccl().comm_split(r.comm, r.rank == 1 ? 7 : 8, -r.rank, &part, nullptr));
    EXPECT_EQ(sum_of_ones(r, part), r.rank == 1 ? 1 : 2);
    // By its key the last rank is the first of its part.
    const CudaPointer buffer = r.gpu.upload(std::vector<int>{r.rank});
    check(nccl().broadcast(at(buffer), at(buffer), 1, kNcclInt32, 0, part, r.stream));
    r.gpu.wait(r.stream);
    EXPECT_EQ(r.gpu.download<int>(buffer, 1)[0], r.rank == 1 ? 1 : 2);
    check(nccl().comm_destroy(part));
    const int color = r.rank == 2 ? kNcclNoColor : 0;
    check(nccl().comm_split(r.comm, color, 0, &part, nullptr));
    EXPECT_EQ(part == nullptr, r.rank == 2);
    if (part != nullptr) check(nccl().comm_destroy(part));
  });
}

TEST(StandinNccl, ShrinkGoesOnWithoutTheExcluded) {
  in_ranks(3, [](Rank& r) {
    r.connect();
    if (r.rank == 0) return;
    int excluded[] = {0};
    NcclComm rest = nullptr;
    check(nccl().comm_shrink(r.comm, excluded, 1, &rest, nullptr, 1));
    EXPECT_EQ(sum_of_ones(r, rest), 2);
    check(nccl().comm_destroy(rest));
    check(nccl().comm_abort(r.comm));
  });
}

}  // namespace
}  // namespace echelon::test
