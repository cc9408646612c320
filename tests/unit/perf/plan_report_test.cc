// SPDX-License-Identifier: Apache-2.0
#include "tools/plan_report.h"

#include <gtest/gtest.h>

#include <chrono>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "tests/support/json_lines.h"

namespace echelon::tools {
namespace {

Fabric fabric_of(int hosts, int ranks_per_host) {
  std::string text = "name = \"test\"\n[[host]]\nname = \"h[1-" + std::to_string(hosts) +
                     "]\"\nranks = " + std::to_string(ranks_per_host) +
                     "\n[[host.nic]]\nname = \"eth0\"\nkind = \"ethernet\"\n"
                     "bandwidth = \"1 gbit/s\"\n";
  return expand(parse_fabric_file(text, "test.toml"));
}

TEST(PlanText, ShowsMachinesTiersAndChoices) {
  PlanQuestion question;
  question.sizes = {8, 64 << 20};
  const std::string text = plan_text(fabric_of(4, 2), question);
  EXPECT_NE(text.find("test: 8 ranks on 4 hosts"), std::string::npos) << text;
  EXPECT_NE(text.find("ethernet 1 Gbit/s"), std::string::npos) << text;
  EXPECT_NE(text.find("64 MiB"), std::string::npos) << text;
  EXPECT_NE(text.find("native/"), std::string::npos) << text;
}

TEST(PlanJson, IsOneObjectPerSizeWithTheBound) {
  PlanQuestion question;
  question.sizes = {64 << 10, 64 << 20};
  question.ranks = 6;
  const auto all = test::json_lines(plan_json(fabric_of(4, 2), question));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1]["bytes"], 64 << 20);
  EXPECT_EQ(all[1]["ranks"], 6);
  EXPECT_EQ(all[1]["hosts"], 3);
  // 2(H-1)/H x S over what TCP gets of 125 MB/s, H = 3.
  EXPECT_NEAR(all[1]["bound_us"].get<double>(), 4.0 / 3 * (64 << 20) / (125e6 * 0.9564) * 1e6, 1e3);
  EXPECT_FALSE(all[1].contains("rejected"));
  EXPECT_FALSE(all[1]["reason"].get<std::string>().empty());
}

TEST(PlanText, TakesWhatWasMeasuredOnSuchMachines) {
  const Fabric fabric = fabric_of(2, 2);
  const std::vector<int> hosts = {0, 0, 1, 1};
  const MeasuredPlan measured{parse_recipe("ring"), 212e-6, parse_recipe("native/ring"), 260e-6};
  PlanQuestion question;
  question.sizes = {3000, 5000};
  question.tuning =
      Tuning{machine_key(fabric, hosts), {}, {{ECH_ALLREDUCE, 2048, 4096, measured, 5}}};
  const std::string text = plan_text(fabric, question);
  EXPECT_NE(
      text.find("measured by echelon tune: 212 us, the model's choice native/ring took 260 us"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("measured by"), text.rfind("measured by")) << "5000 bytes were not measured";
  question.algorithm = "ring";
  EXPECT_EQ(plan_text(fabric, question).find("measured by"), std::string::npos);
  question.algorithm.clear();
  question.tuning->machine.texts[5] = "9";
  const std::string other = plan_text(fabric, question);
  EXPECT_EQ(other.find("measured by"), std::string::npos);
  EXPECT_NE(other.find("note: what was measured is left aside: cores is"), std::string::npos)
      << other;
}

TEST(PlanJson, RejectedOnDemandAndOverride) {
  PlanQuestion question;
  question.sizes = {1 << 20};
  question.rejected = true;
  EXPECT_FALSE(nlohmann::json::parse(plan_json(fabric_of(2, 2), question))["rejected"].empty());
  question.algorithm = "ring";
  const auto ring = nlohmann::json::parse(plan_json(fabric_of(2, 2), question));
  EXPECT_EQ(ring["plan"].get<std::string>().substr(0, 4), "ring");
}

TEST(PlanText, ABarrierHasOneRowWithoutSize) {
  PlanQuestion question;
  question.collective = ECH_BARRIER;
  question.sizes = {8, 1 << 20};
  question.rejected = true;
  const std::string text = plan_text(fabric_of(4, 2), question);
  EXPECT_NE(text.find("\nbarrier\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n       0 B  leader:native/"), std::string::npos) << text;
  for (const char* wrong : {"nan", "MiB", " 8 B"})
    EXPECT_EQ(text.find(wrong), std::string::npos) << text;
  question.rejected = false;
  const auto j = nlohmann::json::parse(plan_json(fabric_of(4, 2), question));
  EXPECT_EQ(j["collective"], "barrier");
  EXPECT_EQ(j["bytes"], 0);
  EXPECT_GT(j["predicted_us"], j["bound_us"]);
}

// A plan that would be cheaper by less than 2 % is rejected for its place in the order.
TEST(PlanText, SaysWhichOfTheRejectedAreAsGood) {
  PlanQuestion question;
  question.sizes = {16 << 20};
  question.rejected = true;
  const std::string text = plan_text(fabric_of(4, 2), question);
  EXPECT_NE(text.find("as good, within 2 %"), std::string::npos) << text;
}

TEST(Plan, WhatCannotBeIsSaid) {
  PlanQuestion question;
  question.sizes = {8};
  question.ranks = 9;
  EXPECT_THROW(plan_text(fabric_of(4, 2), question), Error);
  question.ranks = 0;
  question.algorithm = "magic";
  EXPECT_THROW(plan_text(fabric_of(4, 2), question), Error);
  question.algorithm = "";
  EXPECT_THROW(plan_text(Fabric{}, question), Error);
  EXPECT_THROW(plan_text(fabric_of(4096, 8), question), Error);  // more than can be planned
}

TEST(Plan, ManyRanksTakeNoTime) {
  PlanQuestion question;
  question.ranks = kMostPlannedRanks;
  for (std::size_t size = 8; size <= std::size_t{64} << 20; size *= 2)
    question.sizes.push_back(size);
  const Fabric fabric = fabric_of(2048, 8);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(plan_text(fabric, question).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace echelon::tools
