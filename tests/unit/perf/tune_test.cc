// SPDX-License-Identifier: Apache-2.0
// What tune tries and says, without ranks.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/tune/candidates.h"
#include "tools/tune/crossover.h"
#include "tools/tune/report.h"
#include "tools/tune/shared_memory.h"
#include "tools/tune/ways.h"

namespace echelon::tune {
namespace {

std::vector<std::string> texts(const std::vector<Recipe>& recipes) {
  std::vector<std::string> all;
  for (const Recipe& r : recipes) all.push_back(to_text(r));
  return all;
}

using Texts = std::vector<std::string>;

TEST(Candidates, ThoseThatTheModelGivesNoChanceAreLeftOut) {
  const std::vector<PredictedRecipe> plans = {
      {parse_recipe("ring"), 3e-3}, {parse_recipe("native"), 1e-3}, {parse_recipe("direct"), 5e-3}};
  const auto near = within(plans, 4);
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(to_text(near[0].recipe), "native");
  EXPECT_EQ(to_text(near[1].recipe), "ring");
  EXPECT_EQ(within(plans, 0).size(), 3u);
  EXPECT_TRUE(within({}, 4).empty());
}

TEST(Candidates, SegmentsBesideTheModels) {
  const auto beside = [](const char* plan, std::size_t bytes) {
    return texts(neighbours(parse_recipe(plan), bytes));
  };
  EXPECT_EQ(beside("ring@1MiB", 64 << 20), (Texts{"ring@512KiB", "ring@2MiB"}));
  EXPECT_EQ(beside("ring@64KiB", 64 << 20), Texts{"ring@128KiB"});
  EXPECT_EQ(beside("ring@16MiB", 64 << 20), Texts{"ring@8MiB"});
  EXPECT_EQ(beside("ring@1MiB", 2 << 20), (Texts{"ring@512KiB", "ring"}));
  EXPECT_EQ(beside("ring", 2 << 20), Texts{"ring@1MiB"});
  EXPECT_EQ(beside("ring", 64 << 10), Texts{});
  EXPECT_EQ(beside("ring", 4), Texts{});
}

TEST(Candidates, AreForcedExactly) {
  EXPECT_EQ(forced(parse_recipe("ring@1MiB"), 64 << 20), "ring@1MiB");
  EXPECT_EQ(forced(parse_recipe("leader:native/ring"), 64 << 10), "leader:native/ring@64KiB");
  EXPECT_EQ(forced(parse_recipe("native"), 4), "native@4");
}

Verdict verdict(double model_us, double best_us) {
  return {ECH_ALLREDUCE,
          65536,
          {parse_recipe("ring"), model_us * 1e-6},
          {parse_recipe("direct"), best_us * 1e-6},
          9,
          5};
}

TEST(Crossover, IsWhereTheOtherWayBeginsToWin) {
  const std::vector<TwoWays> times{{1, 2}, {2, 3}, {5, 3}, {9, 4}};
  for (std::size_t usual : {0, 2, 4}) EXPECT_EQ(crossover(times, usual), 2u) << usual;
  EXPECT_EQ(crossover({}, 0), 0u);
  EXPECT_EQ(crossover(std::vector<TwoWays>{{1, 2}, {1, 2}}, 0), 2u) << "never";
  EXPECT_EQ(crossover(std::vector<TwoWays>{{2, 1}, {2, 1}}, 2), 0u) << "always";
}

TEST(Crossover, OneSizeChangesNothing) {
  EXPECT_EQ(crossover(std::vector<TwoWays>{{1, 2}, {2.1, 2}, {1, 2}, {2, 1}}, 3), 3u);
  EXPECT_EQ(crossover(std::vector<TwoWays>{{1, 2}, {1, 2}, {2, 1}}, 3), 3u);
}

TEST(Crossover, ALeadOfAFewPercentIsLuck) {
  EXPECT_EQ(crossover(std::vector<TwoWays>{{1, 1.04}, {1, 1.04}}, 0), 0u);
  EXPECT_EQ(crossover(std::vector<TwoWays>{{1, 1.06}, {1, 1.06}}, 0), 2u);
  EXPECT_EQ(crossover(std::vector<TwoWays>{{1.04, 1}, {1.04, 1}}, 2), 2u);
}

TEST(SharedMemory, KeepsWhatHostsAgreeOn) {
  using enum shm::Finding;
  const auto words = [](shm::Finding first, shm::Finding last) {
    return shm::word_of(first, 0) | shm::word_of(last, shm::kTrialClasses - 1);
  };
  const auto agree = [](std::initializer_list<std::uint64_t> all) {
    return agreed(std::vector<std::uint64_t>(all));
  };
  EXPECT_EQ(agree({words(kOther, kUsual), words(kUnknown, kUsual)}), words(kOther, kUsual));
  EXPECT_EQ(agree({words(kOther, kUsual), words(kUsual, kUsual)}), words(kUnknown, kUsual));
  EXPECT_EQ(agree({0, 0}), 0u);
  EXPECT_EQ(count_others(words(kOther, kOther)), 2);
  EXPECT_EQ(count_others(words(kUsual, kUnknown)), 0);
}

TEST(SharedMemory, SaysWhatDiffers) {
  MeasuredSharedMemory found;
  EXPECT_EQ(line(found), "# shared memory: as built in\n");
  found.ways.one_shot = 512;
  found.ways.read = TunedSharedMemory::kNever;
  EXPECT_EQ(line(found), "# shared memory: one_shot 512 B, read never; else as built in\n");
  found.ways.results =
      shm::word_of(shm::Finding::kOther, 0) | shm::word_of(shm::Finding::kUsual, 1);
  EXPECT_EQ(line(found),
            "# shared memory: one_shot 512 B, read never, results in 1 of 24 classes of calls; "
            "else as built in\n");
  found.complete = false;
  EXPECT_NE(line(found).find("; time was up before all was measured\n"), std::string::npos);
}

TEST(Report, ALeadOfAFewPercentIsLuck) {
  EXPECT_EQ(to_text(kept(verdict(104, 100)).recipe), "ring");
  EXPECT_EQ(to_text(kept(verdict(106, 100)).recipe), "direct");
}

TEST(Report, CountsWhereTheModelIsRight) {
  EXPECT_EQ(
      summary({verdict(100, 100), verdict(109, 100), verdict(150, 100)}),
      "# the model's choice is within 10 % of the best plan in 2 of 3 cases, at worst 1.50 x\n");
  EXPECT_EQ(summary({}), "");
}

TEST(Report, SaysBothPlansAndTheirTimes) {
  EXPECT_EQ(line(verdict(150, 100), true),
            R"({"collective":"allreduce","bytes":65536,"model":"ring","model_us":150.0,)"
            R"("best":"direct","best_us":100.0,"samples":9,"tried":5})"
            "\n");
  const std::string text = line(verdict(150, 100), false);
  for (const char* word : {"allreduce", "64 KiB", "ring", "150.0", "direct", "100.0", "1.50"})
    EXPECT_NE(text.find(word), text.npos) << word << ": " << text;
}

}  // namespace
}  // namespace echelon::tune
