// SPDX-License-Identifier: Apache-2.0
// The judge: a right result passes, and every kind of wrong one is found. On a communicator of one
// rank, whose results the test then spoils.
#include "tools/perf/trial.h"

#include <gtest/gtest.h>

#include <vector>

#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

class Judge : public testing::Test {
 protected:
  const Comm comm_{""};
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (ech_collective collective : parse_collectives("all"))
    for (ech_dtype dtype : parse_dtypes("all"))
      for (ech_op op : parse_ops(reduces(collective) ? "all" : "sum"))
        for (bool in_place : {false, true})
          all.push_back({collective, dtype, op, 0, 1021, in_place, 1});
  return all;
}

TEST_F(Judge, PassesWhatIsRight) {
  for (const Case& c : cases())
    for (Form form : {Form::kBlocking, Form::kNonblocking}) {
      Buffers buffers = buffers_for({{c}}, 1, {});
      Trial trial(comm_, buffers, c);
      trial.prepare();
      trial.run(form);
      EXPECT_EQ(trial.judge().wrong, 0u) << trial.judge().first;
      EXPECT_EQ(trial.verify(), 0u);
    }
}

TEST_F(Judge, FindsAnOperationThatDidNothing) {
  Case c{.count = 1000};
  Buffers buffers = buffers_for({{c}}, 1, {});
  Trial trial(comm_, buffers, c);
  trial.prepare();
  EXPECT_EQ(trial.judge().wrong, 1000u);
}

struct Damage {
  bool in_result;
  std::ptrdiff_t at;  // byte
  const char* says;
};

TEST_F(Judge, FindsEveryDamage) {
  const Case c{.dtype = ECH_INT32, .count = 1000};
  const Damage all[] = {{true, 0, "element 0 is"},          {true, 3999, "element 999 is"},
                        {true, 4000, "beside the buffers"}, {true, -1, "beside the buffers"},
                        {false, 400, "input element 100"},  {false, -64, "beside the buffers"},
                        {false, 4063, "beside the buffers"}};
  for (const Damage& damage : all) {
    Buffers buffers = buffers_for({{c}}, 1, {});
    Trial trial(comm_, buffers, c);
    trial.prepare();
    trial.run();
    ASSERT_EQ(trial.judge().wrong, 0u);
    // Placing again finds the same memory; the guards are then as fresh as before.
    std::byte* const data = (damage.in_result ? buffers.recv : buffers.send).place(4000, 0).data();
    data[damage.at] ^= std::byte{1};
    const Verdict verdict = trial.judge();
    EXPECT_EQ(verdict.wrong, 1u) << damage.at;
    EXPECT_NE(verdict.first.find(damage.says), std::string::npos) << verdict.first;
    testing::internal::CaptureStderr();
    EXPECT_EQ(trial.verify(), 1u);
    EXPECT_NE(testing::internal::GetCapturedStderr().find(damage.says), std::string::npos);
  }
}

TEST_F(Judge, SharedMemoryWorksTheSame) {
  const Case c{.count = 5000};
  Buffers buffers = buffers_for({{c}}, 1, {.shared = true});
  Trial trial(comm_, buffers, c);
  trial.prepare();
  trial.run();
  EXPECT_EQ(trial.judge().wrong, 0u);
}

TEST_F(Judge, FailingCallsNameCallAndRank) {
  try {
    comm_.require(ECH_ERR_TIMEOUT, "ech_barrier");
    FAIL();
  } catch (const Failure& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, 28), "rank 0: ech_barrier: timeout");
  }
}

}  // namespace
}  // namespace echelon::perf
