// SPDX-License-Identifier: Apache-2.0
// Operations where other ranks come late: starting one does not wait, and waiting for one leaves
// the processors to others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <vector>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

void wait_for(std::atomic<int>& counter, int value) {
  while (counter < value) usleep(1000);
}

struct Stream {
  ech_collective collective;  // broadcast or reduce, to or from rank 0
  std::size_t count;
  int calls;
  const char* algorithm = nullptr;  // nullptr: the plan's choice
  int ranks = 2;
};

// The calls of one rank, of one-way operations on data of their own.
class Calls {
 public:
  Calls(ech_comm* comm, const Stream& stream)
      : comm_(comm), stream_(stream), rank_(rank_of(comm)), requests_(stream.calls) {}

  void start() {
    for (int k = 0; k < stream_.calls; ++k) {
      data_.emplace_back(stream_.count, input(k, rank_));
      int* const data = data_.back().data();
      const ech_status status = stream_.collective == ECH_BROADCAST
                                    ? ech_ibroadcast(data, data, stream_.count, ECH_INT32, 0, comm_,
                                                     nullptr, &requests_[k])
                                    : ech_ireduce(data, data, stream_.count, ECH_INT32, ECH_SUM, 0,
                                                  comm_, nullptr, &requests_[k]);
      ASSERT_TRUE(ok(status)) << k;
    }
  }

  void finish() {
    ASSERT_TRUE(ok(ech_wait_all(requests_.size(), requests_.data())));
    for (int k = 0; k < stream_.calls; ++k)
      ASSERT_EQ(data_[k], std::vector<int>(stream_.count, result(k))) << k;
  }

 private:
  static int input(int k, int rank) { return 10 * k + rank; }
  int result(int k) const {
    if (stream_.collective == ECH_BROADCAST) return input(k, 0);
    if (rank_ != 0) return input(k, rank_);
    return stream_.ranks * 10 * k + stream_.ranks * (stream_.ranks - 1) / 2;
  }

  ech_comm* comm_;
  const Stream stream_;
  const int rank_;
  std::vector<std::vector<int>> data_;
  std::vector<ech_request*> requests_;
};

// The ranks that only send start everything before those that receive start anything.
void expect_start_at_once(const Stream& stream) {
  const World world;
  run_processes(stream.ranks, [&](int rank) {
    ech_comm_options options = options_with(20);
    options.algorithm = stream.algorithm;
    Comm comm = make_comm(world, {rank, stream.ranks}, options);
    Calls calls(comm.get(), stream);
    const bool sends = (rank == 0) == (stream.collective == ECH_BROADCAST);
    const int senders = stream.collective == ECH_BROADCAST ? 1 : stream.ranks - 1;
    if (!sends) wait_for(world.counter(), senders);
    calls.start();
    if (sends) ++world.counter();
    calls.finish();
    expect_works(comm.get());
    close(std::move(comm));
  });
}

TEST(Starting, ManyBroadcasts) { expect_start_at_once({ECH_BROADCAST, 500, 200}); }
TEST(Starting, ManyReduces) { expect_start_at_once({ECH_REDUCE, 500, 200}); }
TEST(Starting, LargeBroadcasts) { expect_start_at_once({ECH_BROADCAST, 1 << 20, 40}); }
TEST(Starting, LargeReduces) { expect_start_at_once({ECH_REDUCE, 1 << 20, 40}); }
TEST(Starting, ManyBroadcastsByMessages) {
  expect_start_at_once({ECH_BROADCAST, 500, 200, "ring", 3});
}
TEST(Starting, ManyReducesByMessages) { expect_start_at_once({ECH_REDUCE, 500, 200, "ring", 3}); }

// Of all threads of this process so far, s.
double processor_time() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class Waiting : public testing::TestWithParam<const char*> {};

// By shared memory and by messages, for a rank that comes 2 s late.
TEST_P(Waiting, LeavesTheProcessors) {
  const World world;
  run_processes(4, [&](int rank) {
    ech_comm_options options = options_with(kPatience);
    options.algorithm = GetParam();
    Comm comm = make_comm(world, {rank, 4}, options);
    for (const std::size_t count : {1, 1 << 18}) {
      std::vector<float> data(count, 1);
      ASSERT_TRUE(ok(ech_barrier(comm.get())));
      if (rank == 1) sleep(2);
      const double before = processor_time();
      ASSERT_TRUE(
          ok(ech_allreduce(data.data(), data.data(), count, ECH_FLOAT32, ECH_SUM, comm.get())));
      EXPECT_LT(processor_time() - before, 0.1 * kSlowness) << count;
      EXPECT_EQ(data.back(), 4);
    }
    close(std::move(comm));
  });
}

INSTANTIATE_TEST_SUITE_P(Plans, Waiting, testing::Values("native", "ring"));

}  // namespace
}  // namespace echelon::test
