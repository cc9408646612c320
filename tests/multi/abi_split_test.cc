// SPDX-License-Identifier: Apache-2.0
// Communicators split from communicators, through the C ABI.
#include <gtest/gtest.h>

#include <thread>

#include "tests/multi/abi_trial.h"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

Comm split(ech_comm* parent, int color, int key) {
  ech_comm* comm = reinterpret_cast<ech_comm*>(1);
  EXPECT_TRUE(ok(ech_comm_split(parent, color, key, &comm)));
  return Comm(comm);
}

class Split : public testing::Test {
 protected:
  void on_ranks(int size, const std::function<void(Comm)>& body) {
    const World world;
    run_processes(size, [&](int rank) { body(make_comm(world, {rank, size})); });
  }
};

TEST_F(Split, ByParity) {
  on_ranks(5, [](Comm parent) {
    const int rank = rank_of(parent.get());
    Comm child = split(parent.get(), rank % 2, 0);
    EXPECT_EQ(size_of(child.get()), rank % 2 == 0 ? 3 : 2);
    EXPECT_EQ(rank_of(child.get()), rank / 2);
    int sum = 0;
    EXPECT_TRUE(ok(ech_allreduce(&rank, &sum, 1, ECH_INT32, ECH_SUM, child.get())));
    EXPECT_EQ(sum, rank % 2 == 0 ? 0 + 2 + 4 : 1 + 3);
    close(std::move(child));
    expect_works(parent.get());
    close(std::move(parent));
  });
}

TEST_F(Split, KeysOrderTheRanks) {
  on_ranks(4, [](Comm parent) {
    const int rank = rank_of(parent.get());
    Comm reversed = split(parent.get(), 7, -rank);  // negative keys are numbers like others
    EXPECT_EQ(rank_of(reversed.get()), 3 - rank);
    std::vector<int> order(4);
    EXPECT_TRUE(ok(ech_allgather(&rank, order.data(), 1, ECH_INT32, reversed.get())));
    EXPECT_EQ(order, (std::vector<int>{3, 2, 1, 0}));
    Comm swapped = split(parent.get(), 0, rank % 2 == 0 ? 10 : -10);
    EXPECT_EQ(rank_of(swapped.get()), (std::vector<int>{2, 0, 3, 1})[rank]);
    for (Comm* comm : {&swapped, &reversed, &parent}) close(std::move(*comm));
  });
}

TEST_F(Split, ANegativeColorGetsNothing) {
  on_ranks(4, [](Comm parent) {
    const int rank = rank_of(parent.get());
    Comm child = split(parent.get(), rank == 2 ? -1 : 3, 0);
    ASSERT_EQ(child == nullptr, rank == 2);
    if (child) {
      EXPECT_EQ(size_of(child.get()), 3);
      expect_works(child.get());
      close(std::move(child));
    }
    EXPECT_EQ(split(parent.get(), -1 - rank, 0), nullptr);
    close(std::move(parent));
  });
}

TEST_F(Split, EveryRankAlone) {
  on_ranks(3, [](Comm parent) {
    Comm child = split(parent.get(), rank_of(parent.get()), 0);
    EXPECT_EQ(size_of(child.get()), 1);
    expect_works(child.get());
    close(std::move(child));
    close(std::move(parent));
  });
}

TEST_F(Split, OfASplitAndInterleaved) {
  on_ranks(8, [](Comm parent) {
    const int rank = rank_of(parent.get());
    Comm half = split(parent.get(), rank / 4, 0);
    Comm pair = split(half.get(), rank_of(half.get()) / 2, 0);
    EXPECT_EQ(size_of(pair.get()), 2);
    for (int i = 0; i < 10; ++i) {
      std::vector<ech_request*> requests;
      std::vector<Trial> trials;
      for (ech_comm* comm : {parent.get(), half.get(), pair.get()})
        trials.emplace_back(comm, Case{ECH_ALLREDUCE, 4099, ECH_INT64, ECH_SUM, 0, i % 2 == 0});
      for (Trial& trial : trials) {
        requests.push_back(nullptr);
        ASSERT_TRUE(ok(trial.start(&requests.back())));
      }
      std::swap(requests[0], requests[2]);
      ASSERT_TRUE(ok(ech_wait_all(requests.size(), requests.data())));
      for (const Trial& trial : trials) trial.check();
    }
    for (Comm* comm : {&parent, &pair, &half}) close(std::move(*comm));
  });
}

TEST_F(Split, TheChildOutlivesTheParent) {
  on_ranks(4, [](Comm parent) {
    Comm child = split(parent.get(), rank_of(parent.get()) % 2, 0);
    close(std::move(parent));
    for (int i = 0; i < 5; ++i) expect_works(child.get());
    Comm grandchild = split(child.get(), 0, 0);
    close(std::move(child));
    expect_works(grandchild.get());
    close(std::move(grandchild));
  });
}

TEST_F(Split, ParentAndChildInDifferentThreads) {
  on_ranks(2, [](Comm parent) {
    Comm child = split(parent.get(), 0, 0);
    std::thread other([&] {
      for (int i = 0; i < 50; ++i) expect_works(child.get());
    });
    for (int i = 0; i < 50; ++i) expect_works(parent.get());
    other.join();
    close(std::move(child));
    close(std::move(parent));
  });
}

TEST_F(Split, OfOneRank) {
  on_ranks(1, [](Comm parent) {
    Comm child = split(parent.get(), 0, 0);
    expect_works(child.get());
    EXPECT_EQ(split(parent.get(), -1, 0), nullptr);
    close(std::move(parent));
    close(std::move(child));
  });
}

// The parent's forced plan goes on to the children where it fits, and is not in their way else.
TEST_F(Split, WithAForcedPlan) {
  const World world;
  run_processes(3, [&](int rank) {
    ech_comm_options options = options_with(kPatience);
    options.algorithm = "recursive_doubling";
    Comm parent = make_comm(world, {rank, 3}, options);
    expect_works(parent.get());
    Comm child = split(parent.get(), rank == 0 ? 1 : 0, 0);
    expect_works(child.get());
    close(std::move(child));
    close(std::move(parent));
  });
}

}  // namespace
}  // namespace echelon::test
