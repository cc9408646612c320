// SPDX-License-Identifier: Apache-2.0
// Many operations, communicators and threads at once, through the C ABI.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "tests/multi/abi_trial.h"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using Body = std::function<void(ech_comm*)>;

void on_ranks(int size, const Body& body) {
  const World world;
  run_processes(size, [&](int rank) {
    Comm comm = make_comm(world, {rank, size});
    body(comm.get());
    close(std::move(comm));
  });
}

// A mixture of `n` operations, alike on every rank.
std::deque<Trial> mixture(ech_comm* comm, int n) {
  std::deque<Trial> trials;
  for (int i = 0; i < n; ++i) {
    Case c;
    c.collective = i % 11 == 10 ? ECH_BARRIER : kWithData[i % std::size(kWithData)];
    c.count = c.collective == ECH_BARRIER ? 0 : static_cast<std::size_t>(i * i * 37 % 5003);
    c.dtype = kTypes[i * 3 % std::size(kTypes)];
    c.op = kOps[i % std::size(kOps)];
    c.root = i % size_of(comm);
    c.in_place = i % 4 == 1;
    trials.emplace_back(comm, c);
  }
  return trials;
}

std::vector<ech_request*> start_all(std::deque<Trial>& trials) {
  std::vector<ech_request*> requests;
  for (Trial& trial : trials) {
    requests.push_back(nullptr);
    EXPECT_TRUE(ok(trial.start(&requests.back())));
  }
  return requests;
}

constexpr int kMany = 200;

TEST(Requests, ManyAreWaitedForInReverse) {
  for (int size : {2, 5}) {
    on_ranks(size, [](ech_comm* comm) {
      std::deque<Trial> trials = mixture(comm, kMany);
      std::vector<ech_request*> requests = start_all(trials);
      for (auto r = requests.rbegin(); r != requests.rend(); ++r) EXPECT_TRUE(ok(ech_wait(&*r)));
      for (const Trial& trial : trials) trial.check();
    });
  }
}

TEST(Requests, WaitAllSkipsNull) {
  on_ranks(3, [](ech_comm* comm) {
    std::deque<Trial> trials = mixture(comm, kMany);
    std::vector<ech_request*> requests = start_all(trials);
    requests.insert(requests.begin() + 5, nullptr);
    EXPECT_TRUE(ok(ech_wait_all(requests.size(), requests.data())));
    EXPECT_EQ(requests, std::vector<ech_request*>(kMany + 1));
    for (const Trial& trial : trials) trial.check();
    EXPECT_TRUE(ok(ech_wait_all(requests.size(), requests.data())));
    EXPECT_TRUE(ok(ech_wait_all(0, nullptr)));
  });
}

TEST(Requests, TestAloneMakesProgress) {
  on_ranks(3, [](ech_comm* comm) {
    std::deque<Trial> trials = mixture(comm, 40);
    std::vector<ech_request*> requests = start_all(trials);
    for (ech_request* request : requests) {
      int done = 0;
      while (done == 0) {
        ASSERT_TRUE(ok(ech_test(request, &done)));
        std::this_thread::yield();
      }
      EXPECT_TRUE(ok(ech_test(request, &done)));
      EXPECT_EQ(done, 1);
    }
    for (const Trial& trial : trials) trial.check();
    EXPECT_TRUE(ok(ech_wait_all(requests.size(), requests.data())));
  });
}

TEST(Requests, BlockingOperationsPassBetween) {
  on_ranks(2, [](ech_comm* comm) {
    std::deque<Trial> trials = mixture(comm, 60);
    for (std::size_t i = 0; i + 1 < trials.size(); i += 2) {
      ech_request* request = nullptr;
      ASSERT_TRUE(ok(trials[i].start(&request)));
      ASSERT_TRUE(ok(trials[i + 1].run()));
      ASSERT_TRUE(ok(ech_wait(&request)));
    }
    for (const Trial& trial : trials) trial.check();
  });
}

// Nobody waits: destruction does, and the buffers are complete after it.
TEST(Requests, DestroyWaitsForWhatIsPending) {
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    std::vector<float> data(1'000'000, static_cast<float>(rank + 1));
    ech_request* request = nullptr;
    ASSERT_TRUE(ok(ech_iallreduce(data.data(), data.data(), data.size(), ECH_FLOAT32, ECH_SUM,
                                  comm.get(), nullptr, &request)));
    close(std::move(comm));
    EXPECT_EQ(data, std::vector<float>(data.size(), 3.0F));
  });
}

// In one process, where the leak sanitizer looks for the requests.
TEST(Requests, ThoseNeverWaitedForEndWithTheirCommunicator) {
  const World world;
  run_threads(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    std::deque<Trial> trials = mixture(comm.get(), kMany);
    std::vector<ech_request*> requests = start_all(trials);
    for (std::size_t i = 0; i < requests.size(); i += 3) EXPECT_TRUE(ok(ech_wait(&requests[i])));
    close(std::move(comm));
    for (const Trial& trial : trials) trial.check();
  });
}

TEST(Requests, AnAbortedCommunicatorEndsItsRequests) {
  const World world;
  std::atomic<int> started = 0;
  run_threads(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    std::vector<float> data(100'000);
    ech_request* requests[3] = {};
    for (ech_request*& request : requests) {
      ASSERT_TRUE(ok(ech_iallreduce(data.data(), data.data(), data.size(), ECH_FLOAT32, ECH_SUM,
                                    comm.get(), nullptr, &request)));
      if (rank == 1) break;  // rank 0 waits in vain for the others
    }
    ++started;
    while (started < 2) usleep(100);
    ASSERT_TRUE(ok(ech_comm_abort(comm.get())));
    if (rank == 0) {
      EXPECT_TRUE(failed_with(ech_wait(&requests[2]), ECH_ERR_ABORTED));
    }
    EXPECT_TRUE(ok(ech_comm_destroy(comm.release())));
  });
}

TEST(Memory, SharedMemoryIsZeroedAndWorks) {
  on_ranks(4, [](ech_comm* comm) {
    constexpr std::size_t kCount = 300'001;
    void *in = nullptr, *out = nullptr;
    ASSERT_TRUE(ok(ech_alloc(&in, kCount * sizeof(int), ECH_MEMORY_AUTO)));
    ASSERT_TRUE(ok(ech_alloc(&out, kCount * sizeof(int), ECH_MEMORY_HOST)));
    auto *mine = static_cast<int*>(in), *sum = static_cast<int*>(out);
    EXPECT_EQ(std::count(mine, mine + kCount, 0), kCount);
    for (int round = 1; round <= 3; ++round) {
      std::fill_n(mine, kCount, rank_of(comm) * round);
      ASSERT_TRUE(ok(ech_allreduce(mine, sum, kCount, ECH_INT32, ECH_SUM, comm)));
      EXPECT_EQ(std::count(sum, sum + kCount, 6 * round), kCount);
      std::vector<int> ordinary(kCount);  // one side only
      ASSERT_TRUE(ok(ech_allreduce(mine, ordinary.data(), kCount, ECH_INT32, ECH_SUM, comm)));
      EXPECT_EQ(ordinary, std::vector<int>(kCount, 6 * round));
    }
    EXPECT_TRUE(ok(ech_free(in)));
    EXPECT_TRUE(ok(ech_free(out)));
  });
}

TEST(Communicators, SeveralAtOnceInOneProcess) {
  constexpr int kComms = 4;
  const World world(kComms);
  run_processes(3, [&](int rank) {
    std::vector<Comm> comms;
    for (int i = 0; i < kComms; ++i) comms.push_back(make_comm(world, {rank, 3, i}));
    std::deque<Trial> trials;
    std::vector<ech_request*> requests;
    for (int round = 0; round < 20; ++round) {
      for (const Comm& comm : comms) {
        trials.emplace_back(comm.get(), Case{ECH_ALLREDUCE, 10'007, ECH_INT32, ECH_SUM});
        requests.push_back(nullptr);
        ASSERT_TRUE(ok(trials.back().start(&requests.back())));
      }
    }
    for (auto r = requests.rbegin(); r != requests.rend(); ++r) ASSERT_TRUE(ok(ech_wait(&*r)));
    for (const Trial& trial : trials) trial.check();
    for (Comm& comm : comms) close(std::move(comm));
  });
}

TEST(Communicators, AThreadForEach) {
  constexpr int kThreads = 4;
  const World world(kThreads);
  run_processes(2, [&](int rank) {
    run_threads(kThreads, [&](int thread) {
      Comm comm = make_comm(world, {rank, 2, thread});
      for (int i = 0; i < 50; ++i) {
        Trial trial(comm.get(), {ECH_ALLREDUCE, 1000, ECH_FLOAT64, ECH_SUM, 0, i % 2 == 0});
        ASSERT_TRUE(ok(trial.run()));
        trial.check();
      }
      close(std::move(comm));
    });
  });
}

// All ranks of a communicator as threads of one process.
TEST(Communicators, RanksMayBeThreads) {
  const World world;
  run_threads(4, [&](int rank) {
    Comm comm = make_comm(world, {rank, 4});
    for (Trial& trial : mixture(comm.get(), 30)) {
      ASSERT_TRUE(ok(trial.run()));
      trial.check();
    }
    close(std::move(comm));
  });
}

TEST(Communicators, ManyOneAfterTheOther) {
  constexpr int kComms = 20;
  const World world(kComms);
  run_processes(2, [&](int rank) {
    for (int i = 0; i < kComms; ++i) {
      Comm comm = make_comm(world, {rank, 2, i});
      expect_works(comm.get());
      close(std::move(comm));
    }
  });
}

}  // namespace
}  // namespace echelon::test
