// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/print.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/schedule/shapes.h"

namespace echelon {
namespace {

Composition two_hosts() {
  return composition(ECH_ALLREDUCE, tiers({{2, 1}, {2}}), {Algorithm::kNative, Algorithm::kRing});
}

TEST(Print, Table) {
  EXPECT_EQ(table(compose(two_hosts())),
            "4 units, 4 steps\n"
            "reduce_scatter(tier 0) by native\n"
            "  step 0  reduce_scatter (0 1) [0,2)@0 [2,4)@1\n"
            "allreduce(tier 1) by ring\n"
            "  step 1  0=>2 [1,2)  2=>0 [0,1)  1=>2 [3,4)  2=>1 [2,3)\n"
            "  step 2  0->2 [0,1)  2->0 [1,2)  1->2 [2,3)  2->1 [3,4)\n"
            "allgather(tier 0) by native\n"
            "  step 3  allgather (0 1) [0,2)@0 [2,4)@1\n");
}

TEST(Print, Picture) {
  EXPECT_EQ(picture(compose(flat(ECH_ALLREDUCE, 3, Algorithm::kRing)), ECH_ALLREDUCE, 3),
            "units   start    step 0      step 1      step 2      step 3\n"
            "0       a b c     a  b bc     *  b bc     *  * bc    * * *\n"
            "1       a b c    ac  b  c    ac  *  c    ac  *  *    * * *\n"
            "2       a b c     a ab  c     a ab  *     * ab  *    * * *\n");
}

TEST(Print, PictureShowsWhatIsMissing) {
  EXPECT_EQ(picture(compose(flat(ECH_ALLGATHER, 2, Algorithm::kRing)), ECH_ALLGATHER, 2),
            "units   start    step 0\n"
            "0       a .      a a\n"
            "1       . b      b b\n");
  EXPECT_EQ(picture(compose(flat(ECH_BROADCAST, 3, Algorithm::kDirect)), ECH_BROADCAST, 3),
            "units   start    step 0\n"
            "0-2     a . .    a a a\n");
  EXPECT_NE(picture(Schedule(1), ECH_ALLREDUCE, 2).find("has the input of rank 1 0 times"),
            std::string::npos);
  EXPECT_EQ(picture(Schedule(1), ECH_ALLREDUCE, 27), "more than 26 ranks\n");
}

TEST(Print, JsonHoldsTheWholeSchedule) {
  const Schedule s = compose(two_hosts());
  const auto parsed = nlohmann::json::parse(json(s));
  EXPECT_EQ(parsed["units"], 4);
  EXPECT_EQ(parsed["steps"], 4);
  EXPECT_EQ(parsed["phases"].size(), 3u);
  EXPECT_EQ(parsed["phases"][1]["name"], "allreduce(tier 1) by ring");
  EXPECT_EQ(parsed["transfers"].size(), s.transfers().size());
  EXPECT_EQ(parsed["transfers"][0]["action"], "reduce");
  EXPECT_EQ(parsed["transfers"][0]["to"], 2);
  EXPECT_EQ(parsed["calls"].size(), 2u);
  EXPECT_EQ(parsed["calls"][1]["action"], "allgather");
  EXPECT_EQ(parsed["calls"][1]["parts"][1]["owner"], 1);
  EXPECT_EQ(json(Schedule(1)), R"({"units":1,"steps":0,"phases":[],"transfers":[],"calls":[]})");
}

}  // namespace
}  // namespace echelon
