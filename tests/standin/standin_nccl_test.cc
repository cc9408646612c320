// SPDX-License-Identifier: Apache-2.0
// The stand-in for libnccl.so.2 computes and keeps order as NCCL does.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "lib/base/half.h"
#include "tests/standin/standin_ranks.h"

namespace echelon::test {
namespace {

using namespace std::chrono_literals;

// Of small whole numbers, which every type holds exactly.
template <typename T, typename Store>
void expect_allreduce(Rank& r, NcclType type, const Store& store) {
  constexpr int kCount = 5;
  std::vector<T> input;
  for (int i = 0; i < kCount; ++i) input.push_back(store(i + r.rank));
  // Of i, i + 1 and i + 2.
  const auto expected = [](NcclOp op, int i) {
    switch (op) {
      case kNcclSum:
        return 3 * i + 3;
      case kNcclProd:
        return i * (i + 1) * (i + 2);
      case kNcclMax:
        return i + 2;
      case kNcclMin:
        return i;
      default:
        return i + 1;
    }
  };
  const CudaPointer send = r.gpu.upload(input), recv = r.gpu.upload(input);
  for (NcclOp op : {kNcclSum, kNcclProd, kNcclMax, kNcclMin, kNcclAvg}) {
    check(nccl().all_reduce(at(send), at(recv), kCount, type, op, r.comm, r.stream));
    r.gpu.wait(r.stream);
    const auto result = r.gpu.download<T>(recv, kCount);
    for (int i = 0; i < kCount; ++i)
      EXPECT_EQ(result[i], store(expected(op, i))) << "type " << type << " op " << op << " " << i;
  }
}

template <typename T>
void expect_allreduce(Rank& r, NcclType type) {
  expect_allreduce<T>(r, type, [](int v) { return static_cast<T>(v); });
}

TEST(StandinNccl, AllreduceOfAllTypesAndOperators) {
  in_connected_ranks(3, [](Rank& r) {
    expect_allreduce<std::int8_t>(r, kNcclInt8);
    expect_allreduce<std::uint8_t>(r, kNcclUint8);
    expect_allreduce<std::int32_t>(r, kNcclInt32);
    expect_allreduce<std::uint32_t>(r, kNcclUint32);
    expect_allreduce<std::int64_t>(r, kNcclInt64);
    expect_allreduce<std::uint64_t>(r, kNcclUint64);
    expect_allreduce<float>(r, kNcclFloat32);
    expect_allreduce<double>(r, kNcclFloat64);
    const auto half = [](int v) { return float_to_float16(static_cast<float>(v)); };
    const auto bfloat = [](int v) { return float_to_bfloat16(static_cast<float>(v)); };
    expect_allreduce<std::uint16_t>(r, kNcclFloat16, half);
    expect_allreduce<std::uint16_t>(r, kNcclBfloat16, bfloat);
  });
}

// In float16, 2048 + 1 is 2048.
TEST(StandinNccl, SixteenBitsAreAddedInFloat) {
  in_connected_ranks(3, [](Rank& r) {
    const CudaPointer buffer =
        r.gpu.upload(std::vector<std::uint16_t>{float_to_float16(r.rank == 0 ? 2048 : 1)});
    check(nccl().all_reduce(at(buffer), at(buffer), 1, kNcclFloat16, kNcclSum, r.comm, r.stream));
    r.gpu.wait(r.stream);
    EXPECT_EQ(float16_to_float(r.gpu.download<std::uint16_t>(buffer, 1)[0]), 2050);
  });
}

TEST(StandinNccl, ReduceScatterAndAllgatherInPlace) {
  for (int size : {1, 2, 3}) {
    in_connected_ranks(size, [](Rank& r) {
      constexpr std::size_t kPart = 1000;
      const std::size_t n = static_cast<std::size_t>(r.size);
      std::vector<int> input;
      for (std::size_t i = 0; i < kPart * n; ++i) input.push_back(static_cast<int>(i) + r.rank);
      const CudaPointer buffer = r.gpu.upload(input);
      const CudaPointer part = buffer + kPart * sizeof(int) * static_cast<std::size_t>(r.rank);
      check(nccl().reduce_scatter(at(buffer), at(part), kPart, kNcclInt32, kNcclSum, r.comm,
                                  r.stream));
      check(nccl().all_gather(at(part), at(buffer), kPart, kNcclInt32, r.comm, r.stream));
      r.gpu.wait(r.stream);
      const auto result = r.gpu.download<int>(buffer, kPart * n);
      for (std::size_t i = 0; i < result.size(); ++i)
        ASSERT_EQ(result[i], r.size * static_cast<int>(i) + r.size * (r.size - 1) / 2);
    });
  }
}

TEST(StandinNccl, BroadcastAndReduceHaveRoots) {
  in_connected_ranks(3, [](Rank& r) {
    const CudaPointer send = r.gpu.upload(std::vector<int>{r.rank, 10 * r.rank});
    const CudaPointer recv = r.gpu.upload(std::vector<int>{-1, -1});
    check(nccl().broadcast(at(send), at(recv), 2, kNcclInt32, 2, r.comm, r.stream));
    r.gpu.wait(r.stream);
    EXPECT_EQ(r.gpu.download<int>(recv, 2), (std::vector<int>{2, 20}));
    check(nccl().reduce(at(send), at(recv), 2, kNcclInt32, kNcclSum, 1, r.comm, r.stream));
    r.gpu.wait(r.stream);
    const auto expected = r.rank == 1 ? std::vector<int>{3, 30} : std::vector<int>{2, 20};
    EXPECT_EQ(r.gpu.download<int>(recv, 2), expected);
  });
}

TEST(StandinNccl, AnOperationIsWorkInAStream) {
  in_connected_ranks(2, [](Rank& r) {
    const CudaPointer buffer = r.gpu.upload(std::vector<int>{0});
    Gate gate;
    gate.put_into(r.gpu, r.stream);
    r.gpu.check(r.gpu->memset_d8_async(buffer, 1, 1, r.stream), "cuMemsetD8Async");
    check(nccl().all_reduce(at(buffer), at(buffer), 1, kNcclInt32, kNcclSum, r.comm, r.stream));
    EXPECT_EQ(r.gpu->stream_query(r.stream), kCudaNotReady);
    EXPECT_EQ(nccl().comm_destroy(nullptr), kNcclInvalidArgument);
    gate.open();
    r.gpu.wait(r.stream);
    EXPECT_EQ(r.gpu.download<int>(buffer, 1)[0], 2);
  });
}

// The second waits for the first, although its stream has nothing else to do.
TEST(StandinNccl, OperationsKeepTheirOrderAcrossStreams) {
  in_connected_ranks(2, [](Rank& r) {
    const CudaStream other = r.gpu.stream();
    const CudaPointer a = r.gpu.upload(std::vector<int>{1}), b = r.gpu.upload(std::vector<int>{2});
    Gate gate;
    gate.put_into(r.gpu, r.stream);
    check(nccl().all_reduce(at(a), at(a), 1, kNcclInt32, kNcclSum, r.comm, r.stream));
    check(nccl().all_reduce(at(b), at(b), 1, kNcclInt32, kNcclProd, r.comm, other));
    std::this_thread::sleep_for(10ms);
    EXPECT_EQ(r.gpu->stream_query(other), kCudaNotReady);
    gate.open();
    r.gpu.wait(other);
    EXPECT_EQ(r.gpu.download<int>(a, 1)[0], 2);
    EXPECT_EQ(r.gpu.download<int>(b, 1)[0], 4);
  });
}

TEST(StandinNccl, AGroupIsOnePieceOrNothing) {
  in_connected_ranks(2, [](Rank& r) {
    const CudaPointer a = r.gpu.upload(std::vector<int>{1}), b = r.gpu.upload(std::vector<int>{2});
    const auto sum = [&](CudaPointer p, std::size_t count) {
      return nccl().all_reduce(at(p), at(p), count, kNcclInt32, kNcclSum, r.comm, r.stream);
    };
    check(nccl().group_start());
    check(sum(a, 1));
    check(sum(b, 1));
    EXPECT_EQ(r.gpu->stream_query(r.stream), kCudaSuccess) << "before the end of the group";
    check(nccl().group_end());
    r.gpu.wait(r.stream);
    EXPECT_EQ(r.gpu.download<int>(a, 1)[0], 2);
    EXPECT_EQ(r.gpu.download<int>(b, 1)[0], 4);
    check(nccl().group_start());
    check(sum(a, 1));
    EXPECT_EQ(sum(b, 2), kNcclInvalidArgument) << "longer than its allocation";
    EXPECT_EQ(nccl().group_end(), kNcclInvalidArgument);
    EXPECT_EQ(nccl().group_end(), kNcclInvalidUsage);
    r.gpu.wait(r.stream);
    EXPECT_EQ(r.gpu.download<int>(a, 1)[0], 2);
  });
}

TEST(StandinNccl, BuffersMustBeMemoryOfTheDevice) {
  in_connected_ranks(1, [](Rank& r) {
    int host = 0;
    const NcclResult result =
        nccl().all_reduce(&host, &host, 1, kNcclInt32, kNcclSum, r.comm, r.stream);
    EXPECT_EQ(result, kNcclInvalidArgument);
    EXPECT_STREQ(nccl_error(nccl(), result, "ncclAllReduce", r.comm).what(),
                 "ncclAllReduce: invalid argument (4): a buffer is not in the memory of the right "
                 "device");
  });
}

TEST(StandinNccl, AThreadCanBeSeveralRanks) {
  run_processes(1, [](int) {
    setenv("STANDIN_CUDA_DEVICES", "2", 1);
    NcclComm comms[2] = {};
    CudaPointer buffers[2] = {};
    CudaStream streams[2] = {};
    const NcclUniqueId id = SharedId().get(0);
    check(nccl().group_start());
    for (int rank : {0, 1}) {
      const Gpu gpu(rank);
      streams[rank] = gpu.stream();
      buffers[rank] = gpu.upload(std::vector<int>{5 + rank});
      comms[rank] = join(id, rank, 2);
    }
    check(nccl().group_end());
    check(nccl().group_start());
    for (int rank : {0, 1})
      check(nccl().all_reduce(at(buffers[rank]), at(buffers[rank]), 1, kNcclInt32, kNcclSum,
                              comms[rank], streams[rank]));
    check(nccl().group_end());
    for (int rank : {0, 1}) {
      const Gpu gpu(rank);
      gpu.wait(streams[rank]);
      EXPECT_EQ(gpu.download<int>(buffers[rank], 1)[0], 11);
      check(nccl().comm_destroy(comms[rank]));
    }
  });
}

TEST(StandinNccl, BuffersAreRegisteredAndAllocated) {
  in_connected_ranks(1, [](Rank& r) {
    void* memory = nullptr;
    void* registration = nullptr;
    check(nccl().mem_alloc(&memory, 64));
    check(nccl().comm_register(r.comm, memory, 64, &registration));
    EXPECT_EQ(nccl().comm_register(r.comm, memory, 65, &registration), kNcclInvalidArgument);
    check(nccl().comm_deregister(r.comm, registration));
    check(nccl().mem_free(memory));
    EXPECT_EQ(nccl().mem_free(memory), kNcclUnhandledCudaError);
  });
}

}  // namespace
}  // namespace echelon::test
