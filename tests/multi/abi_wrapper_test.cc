// SPDX-License-Identifier: Apache-2.0
// The C++ header: compiled as C++17, and everything in it used.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "echelon/echelon.hpp"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

static_assert(__cplusplus < 202002L, "this is to be compiled as C++17");

namespace echelon::test {
namespace {

static_assert(ech::dtype_of<std::int8_t> == ECH_INT8 && ech::dtype_of<std::uint8_t> == ECH_UINT8);
static_assert(ech::dtype_of<std::int32_t> == ECH_INT32);
static_assert(ech::dtype_of<std::uint32_t> == ECH_UINT32);
static_assert(ech::dtype_of<std::int64_t> == ECH_INT64);
static_assert(ech::dtype_of<std::uint64_t> == ECH_UINT64);
static_assert(ech::dtype_of<float> == ECH_FLOAT32 && ech::dtype_of<double> == ECH_FLOAT64);
static_assert(ech::dtype_of<ech::Float16> == ECH_FLOAT16 && sizeof(ech::Float16) == 2);
static_assert(ech::dtype_of<ech::Bfloat16> == ECH_BFLOAT16 && sizeof(ech::Bfloat16) == 2);
static_assert(!std::is_copy_constructible_v<ech::Communicator>);
static_assert(std::is_nothrow_move_assignable_v<ech::Communicator>);
static_assert(!std::is_copy_constructible_v<ech::Request>);

constexpr int kRanks = 3;

void on_ranks(const std::function<void(ech::Communicator&)>& body) {
  const World world;
  run_processes(kRanks, [&](int rank) {
    ech::Communicator comm(make_comm(world, {rank, kRanks}).release());
    body(comm);
    comm.destroy();
    EXPECT_FALSE(comm);
  });
}

TEST(Wrapper, BlockingCollectives) {
  on_ranks([](ech::Communicator& comm) {
    const int rank = comm.rank(), size = comm.size();
    ASSERT_EQ(size, kRanks);
    EXPECT_EQ(comm.local_rank(), rank);
    EXPECT_EQ(comm.local_size(), size);
    EXPECT_EQ(comm.host_index(), 0);
    EXPECT_EQ(comm.host_count(), 1);
    const std::int32_t mine[] = {rank, rank + 1, rank + 2};
    std::int32_t out[9] = {};
    comm.allreduce(mine, out, 3, ECH_MAX);
    EXPECT_EQ(out[2], 4);
    comm.reduce_scatter(mine, out, 1);
    EXPECT_EQ(out[0], 3 + 3 * rank);
    comm.allgather(mine, out, 3);
    EXPECT_EQ(std::accumulate(out, out + 9, 0), 18);
    comm.broadcast(mine, out, 3, 1);
    EXPECT_EQ(out[0], 1);
    comm.reduce(mine, out, 3, 2);
    if (rank == 2) {
      EXPECT_EQ(out[0], 3);
    }
    comm.barrier();
  });
}

TEST(Wrapper, NonblockingCollectives) {
  on_ranks([](ech::Communicator& comm) {
    const int rank = comm.rank();
    const double mine[] = {1.0 * rank, 2.0 * rank, 3.0 * rank};
    double sum[3] = {}, block = 0, all[9] = {}, shown[3] = {}, rooted[3] = {};
    ech_call call = ECH_CALL_INIT;
    call.timeout = 30;
    std::vector<ech::Request> requests;
    requests.push_back(comm.iallreduce(mine, sum, 3));
    requests.push_back(comm.ireduce_scatter(mine, &block, 1, ECH_SUM, &call));
    requests.push_back(comm.iallgather(mine, all, 3, &call));
    requests.push_back(comm.ibroadcast(mine, shown, 3, 2, &call));
    requests.push_back(comm.ireduce(mine, rooted, 3, 0, ECH_MAX, &call));
    requests.push_back(comm.ibarrier(&call));
    requests.emplace_back();
    ech::wait_all(requests);
    for (ech::Request& request : requests) {
      EXPECT_EQ(request.get(), nullptr);
      EXPECT_TRUE(request.test());
      EXPECT_NO_THROW(request.wait());
    }
    EXPECT_EQ(sum[2], 9);
    EXPECT_EQ(block, 3.0 * (rank + 1));
    EXPECT_EQ(all[8], 6);
    EXPECT_EQ(shown[1], 4);
    if (rank == 0) {
      EXPECT_EQ(rooted[2], 6);
    }
    ech::Request one = comm.iallreduce(mine, sum, 3, ECH_MIN, &call), two;
    while (!one.test()) continue;
    two = std::move(one);
    two.wait();
    EXPECT_EQ(sum[2], 0);
    comm.iallreduce(mine, sum, 3);  // what nobody keeps is waited for
    EXPECT_EQ(sum[2], 9);
  });
}

TEST(Wrapper, ManyBuffers) {
  on_ranks([](ech::Communicator& comm) {
    const float mine = 1.0F + static_cast<float>(comm.rank());
    float a = mine, b[2] = {mine, mine}, sum = 0;
    ech::BufferList<float> list(0.5, 4);
    list.add(&a, &sum, 1);
    list.add(b, b, 2);
    EXPECT_EQ(list.size(), 2u);
    comm.allreduce_many(list);
    EXPECT_EQ(sum, 12);
    EXPECT_EQ(b[1], 12);
    EXPECT_EQ(a, mine);
    comm.iallreduce_many(list, ECH_MAX).wait();
    EXPECT_EQ(sum, 6);
    EXPECT_EQ(b[0], 24);
    EXPECT_THROW(comm.allreduce_many_on_stream(list, ECH_SUM, nullptr), ech::Error);
  });
}

TEST(Wrapper, HalfTypes) {
  on_ranks([](ech::Communicator& comm) {
    const ech::Float16 one{0x3c00};
    const ech::Bfloat16 bone{0x3f80};
    ech::Float16 sum{};
    ech::Bfloat16 bsum{};
    comm.allreduce(&one, &sum, 1);
    comm.allreduce(&bone, &bsum, 1);
    EXPECT_EQ(sum.bits, 0x4200);  // 3
    EXPECT_EQ(bsum.bits, 0x4040);
  });
}

TEST(Wrapper, BuffersOwnSharedMemory) {
  on_ranks([](ech::Communicator& comm) {
    ech::Buffer<float> none, data(100'000);
    EXPECT_EQ(none.size(), 0u);
    EXPECT_EQ(ech::Buffer<int>(0).data(), nullptr);
    for (float value : data) ASSERT_EQ(value, 0);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = 1.0F + static_cast<float>(comm.rank());
    comm.allreduce(data.data(), data.data(), data.size());
    for (float value : data) ASSERT_EQ(value, 6);
    none = std::move(data);
    EXPECT_EQ(none.size(), 100'000u);
    EXPECT_EQ(data.size(), 0u);
    try {
      ech::Buffer<double> too_large(SIZE_MAX / 4);
      ADD_FAILURE() << "memory without end";
    } catch (const ech::Error& e) {
      EXPECT_EQ(e.status(), ECH_ERR_NO_MEMORY);
    }
  });
}

TEST(Wrapper, Errors) {
  on_ranks([](ech::Communicator& comm) {
    try {
      comm.broadcast(static_cast<const float*>(nullptr), static_cast<float*>(nullptr), 1, kRanks);
      ADD_FAILURE() << "there is no such root";
    } catch (const std::exception& e) {
      const auto* error = dynamic_cast<const ech::Error*>(&e);
      ASSERT_NE(error, nullptr);
      EXPECT_EQ(error->status(), ECH_ERR_INVALID);
      EXPECT_NE(std::string(e.what()).find("root 3"), std::string::npos) << e.what();
    }
    ech_comm_options options = ECH_COMM_OPTIONS_INIT;
    options.bootstrap = "telepathy";
    EXPECT_THROW(ech::Communicator made(options), ech::Error);
    EXPECT_THROW(ech::unique_id("nosuch0"), ech::Error);
  });
}

TEST(Wrapper, TellsWhatItKnows) {
  on_ranks([](ech::Communicator& comm) {
    EXPECT_NE(comm.fabric().find("cluster:"), std::string::npos) << comm.fabric();
    EXPECT_EQ(comm.fabric(ECH_JSON).front(), '{');
    const std::string text = comm.explain<float>(ECH_ALLREDUCE, 1024, ECH_MAX);
    EXPECT_NE(text.find("allreduce of 4 KiB"), std::string::npos) << text;
    EXPECT_EQ(comm.explain<ech::Float16>(ECH_BARRIER, 0, ECH_SUM, ECH_JSON).front(), '{');
    const std::uint64_t before = comm.counters().operations;
    comm.barrier();
    EXPECT_EQ(comm.counters().operations, before + 1);
  });
}

TEST(Wrapper, SetsThePlan) {
  on_ranks([](ech::Communicator& comm) {
    comm.set_algorithm("native@1MiB");
    EXPECT_NE(comm.explain<float>(ECH_ALLREDUCE, 1 << 20).find("asked for"), std::string::npos);
    comm.set_algorithm("");
    EXPECT_EQ(comm.explain<float>(ECH_ALLREDUCE, 1 << 20).find("asked for"), std::string::npos);
  });
}

TEST(Wrapper, SplitsAndShrinks) {
  on_ranks([](ech::Communicator& comm) {
    const int rank = comm.rank();
    ech::Communicator pair = comm.split(rank == 1 ? -1 : 0, -rank);
    comm.barrier();  // an abort would end the split of who is still in it
    EXPECT_EQ(static_cast<bool>(pair), rank != 1);
    if (!pair) return;
    EXPECT_EQ(pair.size(), 2);
    EXPECT_EQ(pair.rank(), rank == 0 ? 1 : 0);
    pair.abort();
    EXPECT_THROW(pair.barrier(), ech::Error);
    EXPECT_THROW(pair.check(), ech::Error);
    ech::Communicator again = pair.shrink();
    EXPECT_EQ(again.size(), 2);
    std::int32_t one = 1, sum = 0;
    again.allreduce(&one, &sum, 1);
    EXPECT_EQ(sum, 2);
    pair = std::move(again);  // which destroys what was there
    pair.barrier();
  });
}

// Where there is no GPU. With one: gpu_streams_test.cc, through the functions that these call.
TEST(Wrapper, FormsInStreamsSayThatThereIsNoGpu) {
  ech::Communicator alone;
  alone.check();
  float one = 1, sum = 0;
  const auto refused = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const ech::Error& e) {
      return e.status() == ECH_ERR_UNSUPPORTED;
    }
    return false;
  };
  EXPECT_TRUE(refused([&] { alone.allreduce_on_stream(&one, &sum, 1, ECH_SUM, nullptr); }));
  EXPECT_TRUE(refused([&] { alone.reduce_scatter_on_stream(&one, &sum, 1, ECH_SUM, nullptr); }));
  EXPECT_TRUE(refused([&] { alone.allgather_on_stream(&one, &sum, 1, nullptr); }));
  EXPECT_TRUE(refused([&] { alone.broadcast_on_stream(&one, &sum, 1, 0, nullptr); }));
  EXPECT_TRUE(refused([&] { alone.reduce_on_stream(&one, &sum, 1, 0, ECH_SUM, nullptr); }));
  EXPECT_TRUE(refused([&] { alone.barrier_on_stream(nullptr); }));
}

// With the variables of nobody: a communicator of one.
TEST(Wrapper, MakesCommunicators) {
  ech::Communicator alone;
  EXPECT_EQ(alone.size(), 1);
  ech_comm_options options = ECH_COMM_OPTIONS_INIT;
  const ech_unique_id id = ech::unique_id("lo");
  options.unique_id = &id;
  options.size = 1;
  const ech::Communicator also(options);
  EXPECT_EQ(also.rank(), 0);
}

}  // namespace
}  // namespace echelon::test
