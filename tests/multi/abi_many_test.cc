// SPDX-License-Identifier: Apache-2.0
// Allreduces of many buffers as one operation, through the C ABI: exact results in every byte, and
// the same bits on every rank.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "tests/multi/abi_list.h"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

// Ranks of each host, which is one by its name: unequal hosts on one machine, for root only.
class Hosts : public testing::TestWithParam<std::vector<int>> {
 protected:
  void on_ranks(const std::function<void(ech_comm*)>& body) {
    const std::vector<int>& hosts = GetParam();
    if (hosts.size() > 1 && geteuid() != 0) GTEST_SKIP() << "host names are root's";
    const int size = std::accumulate(hosts.begin(), hosts.end(), 0);
    const World world;
    run_processes(size, [&](int rank) {
      if (hosts.size() > 1) move_to_host_of(rank);
      Comm comm = make_comm(world, {rank, size});
      body(comm.get());
      close(std::move(comm));
    });
  }

 private:
  static void move_to_host_of(int rank) {
    std::size_t host = 0;
    for (; rank >= GetParam()[host]; ++host) rank -= GetParam()[host];
    const std::string name = "manyhost" + std::to_string(host);
    if (unshare(CLONE_NEWUTS) != 0 || sethostname(name.data(), name.size()) != 0)
      throw std::runtime_error("cannot take another host name");
  }
};

INSTANTIATE_TEST_SUITE_P(Shapes, Hosts,
                         testing::Values(std::vector{1}, std::vector{3}, std::vector{1, 1},
                                         std::vector{2, 1}),
                         [](const auto& info) {
                           std::string name = "Of";
                           for (int ranks : info.param) name += std::to_string(ranks);
                           return name;
                         });

TEST_P(Hosts, EveryTypeAndOperator) {
  on_ranks([](ech_comm* comm) {
    bool in_place = false;
    for (ech_dtype dtype : kTypes) {
      for (ech_op op : kOps) {
        in_place = !in_place;
        List list(comm, {3, 0, 1000, 17}, {ECH_ALLREDUCE, 0, dtype, op, 0, in_place});
        ASSERT_TRUE(ok(list.run()));
        list.check();
      }
    }
  });
}

TEST_P(Hosts, EveryShapeOfLists) {
  const std::vector<Counts> shapes = {{},
                                      {0},
                                      {0, 0},
                                      {1},
                                      {0, 5, 0},
                                      {1, 1},
                                      {3, 1, 4, 1, 5},
                                      {100'003, 3, 700'001, 0, 17},
                                      Counts(300, 7),
                                      {5'000'011, 1, 2'000'003}};
  on_ranks([&](ech_comm* comm) {
    for (const Counts& counts : shapes) {
      for (bool in_place : {false, true}) {
        List list(comm, counts, {ECH_ALLREDUCE, 0, ECH_FLOAT32, ECH_SUM, 0, in_place});
        ASSERT_TRUE(ok(list.run()));
        list.check();
      }
    }
  });
}

TEST_P(Hosts, SeveralAreOutstanding) {
  on_ranks([](ech_comm* comm) {
    std::vector<std::unique_ptr<List>> lists;
    std::vector<ech_request*> requests;
    for (std::size_t k = 0; k < 60; ++k) {
      const Counts counts = k % 10 == 9 ? Counts{600'001, 9, 800'003} : Counts(k % 7, 100 * k + 1);
      lists.push_back(std::make_unique<List>(
          comm, counts, Case{ECH_ALLREDUCE, 0, kTypes[k % 10], kOps[k % 5], 0, k % 3 == 0}));
      ASSERT_TRUE(ok(lists.back()->start(&requests.emplace_back())));
      lists.back()->forget_arrays();
      if (k % 4 == 0) expect_works(comm);  // others pass between
    }
    for (auto r = requests.rbegin(); r != requests.rend(); ++r) EXPECT_TRUE(ok(ech_wait(&*r)));
    for (const auto& list : lists) list->check();
  });
}

// Numbers whose sums are rounded, scaled before and after.
TEST_P(Hosts, AllRanksHaveTheSameBits) {
  on_ranks([](ech_comm* comm) {
    for (ech_dtype dtype : {ECH_FLOAT16, ECH_BFLOAT16, ECH_FLOAT32, ECH_FLOAT64}) {
      const Counts counts = {1001, 1, 300'007, 64, 333};
      const std::size_t bytes = std::accumulate(counts.begin(), counts.end(), 0ul) * width(dtype);
      std::vector<std::byte> data = rounded_numbers(dtype, bytes, rank_of(comm));
      std::vector<void*> buffers;
      std::size_t at = 0;
      for (std::size_t count : counts) {
        buffers.push_back(data.data() + at);
        at += count * width(dtype);
      }
      std::swap(buffers[1], buffers[3]);  // in no order of addresses
      const Counts swapped = {1001, 64, 300'007, 1, 333};
      ASSERT_TRUE(ok(ech_allreduce_many(buffers.data(), buffers.data(), swapped.data(), 5, dtype,
                                        ECH_AVG, 1.0 / 3, 2.7, comm)));
      const int size = size_of(comm);
      std::vector<std::byte> all(bytes * static_cast<std::size_t>(size));
      ASSERT_TRUE(ok(ech_allgather(data.data(), all.data(), bytes, ECH_UINT8, comm)));
      for (int rank = 0; rank < size; ++rank)
        EXPECT_EQ(std::memcmp(all.data() + rank * bytes, data.data(), bytes), 0) << int(dtype);
    }
  });
}

template <typename T>
void expect_scaled(ech_comm* comm, ech_dtype dtype, T one, T expected) {
  for (bool in_place : {false, true}) {
    for (const Counts& counts : {Counts{5}, Counts{5, 3000}}) {
      std::vector<std::vector<T>> in, out;
      std::vector<const void*> send;
      std::vector<void*> recv;
      for (std::size_t count : counts) {
        in.emplace_back(count, one);
        out.emplace_back(count, T{});
      }
      for (std::size_t k = 0; k < counts.size(); ++k) {
        send.push_back(in[k].data());
        recv.push_back(in_place ? in[k].data() : out[k].data());
      }
      ASSERT_TRUE(ok(ech_allreduce_many(send.data(), recv.data(), counts.data(), counts.size(),
                                        dtype, ECH_AVG, 0.5, 3, comm)));
      for (std::size_t k = 0; k < counts.size(); ++k) {
        EXPECT_EQ(in_place ? in[k] : out[k], std::vector<T>(counts[k], expected)) << int(dtype);
        if (!in_place) {
          EXPECT_EQ(in[k], std::vector<T>(counts[k], one)) << "an input was changed";
        }
      }
    }
  }
}

TEST_P(Hosts, FactorsScaleEveryFloat) {
  on_ranks([](ech_comm* comm) {
    expect_scaled<float>(comm, ECH_FLOAT32, 1, 1.5);
    expect_scaled<double>(comm, ECH_FLOAT64, 1, 1.5);
    expect_scaled<std::uint16_t>(comm, ECH_FLOAT16, 0x3c00, 0x3e00);
    expect_scaled<std::uint16_t>(comm, ECH_BFLOAT16, 0x3f80, 0x3fc0);
  });
}

TEST_P(Hosts, AdjacentBuffers) {
  on_ranks([](ech_comm* comm) {
    std::vector<std::int64_t> data(3'000'000, rank_of(comm) + 1);
    std::vector<void*> buffers;
    const Counts counts(30, 100'000);
    for (int k = 0; k < 30; ++k) buffers.push_back(data.data() + k * 100'000);
    ASSERT_TRUE(ok(ech_allreduce_many(buffers.data(), buffers.data(), counts.data(), 30, ECH_INT64,
                                      ECH_SUM, 1, 1, comm)));
    const std::int64_t size = size_of(comm);
    EXPECT_EQ(data, std::vector<std::int64_t>(3'000'000, size * (size + 1) / 2));
  });
}

TEST_P(Hosts, CountAsOneOperation) {
  on_ranks([](ech_comm* comm) {
    ech_counters before{}, after{};
    before.struct_size = after.struct_size = sizeof before;
    ASSERT_TRUE(ok(ech_comm_counters(comm, &before)));
    List list(comm, {10, 0, 1000, 30}, {ECH_ALLREDUCE, 0, ECH_INT32});
    ASSERT_TRUE(ok(list.run()));
    List nothing(comm, {0, 0}, {ECH_ALLREDUCE, 0, ECH_INT32});
    ASSERT_TRUE(ok(nothing.run()));
    ASSERT_TRUE(ok(ech_comm_counters(comm, &after)));
    EXPECT_EQ(after.operations - before.operations, 1u);
    EXPECT_EQ(after.bytes - before.bytes, 1040u * 4);
  });
}

}  // namespace
}  // namespace echelon::test
