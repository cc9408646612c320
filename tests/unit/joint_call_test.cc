// SPDX-License-Identifier: Apache-2.0
// One call of NCCL over all hosts: when it is possible, when it is taken, and what is said of it.
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/plan/choose.h"
#include "tests/unit/fabric/gpu_world.h"

namespace echelon {
namespace {

using test::PlannedGpus;

const GpuUse kJoint{.native = true, .staged = true, .joint = true};
constexpr double kLarge = 256 << 20;

Shape shape_of(const PlannedGpus& world, const GpuUse& use = kJoint) {
  Shape shape = make_shape(world.layout(use), use.native);
  shape.reduce_speed = kGpuReduceSpeed;
  return shape;
}

bool is_possible(const Shape& shape, ech_collective collective) {
  return can_do(shape, parse_recipe("native"), collective);
}

TEST(JointCall, IsPossibleForEveryCollectiveWhereNcclJoinsAll) {
  const Shape with = shape_of(PlannedGpus(2)), without = shape_of(PlannedGpus(2), {true, true});
  for (ech_collective c :
       {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST, ECH_REDUCE}) {
    EXPECT_TRUE(is_possible(with, c));
    EXPECT_FALSE(is_possible(without, c));
    const Schedule schedule = compose(composition_of(with, parse_recipe("native"), c, 1));
    ASSERT_EQ(schedule.calls().size(), 1u);
    EXPECT_EQ(schedule.calls()[0].group, Group::range(4));
    EXPECT_TRUE(schedule.transfers().empty());
  }
}

TEST(JointCall, IsPossibleWithOneGpuOnEachHost) {
  PlannedGpus world(3);
  world.places = {world.places[0], world.places[2], world.places[4]};
  const Shape shape = shape_of(world);
  EXPECT_TRUE(is_possible(shape, ECH_ALLREDUCE));
  EXPECT_TRUE(is_joint_call(shape, parse_recipe("native@1MiB")));
  EXPECT_FALSE(is_joint_call(shape, parse_recipe("ring")));
}

TEST(JointCall, OfOneHostIsNone) {
  const Shape shape = shape_of(PlannedGpus(1));
  EXPECT_FALSE(is_joint_call(shape, parse_recipe("native"))) << "it is that of the host";
  EXPECT_EQ(choose(shape, ECH_ALLREDUCE, kLarge).joint_call, "");
}

// Nor is there anything to say of it, whatever NCCL said.
TEST(JointCall, OfOneHostWithTwoSocketsIsNone) {
  const PlannedGpus world(1);
  Layout layout = make_layout(world.fabric, world.places);
  layout.tiers.insert(layout.tiers.begin(), Tier{TierKind::kSocket, {}});
  const GpuUse use{.native = true, .no_joint = "no id"};
  EXPECT_EQ(layout_of_gpus(layout, world.fabric, world.places, use).no_joint_call, "");
}

// 2 (H-1)/H of the buffer leaves each host, and no copy of ours is in the way.
TEST(JointCall, CostsWhatHasToPassTheNics) {
  const Shape shape = shape_of(PlannedGpus(4));
  const Prediction p = predict(shape, parse_recipe("native"), ECH_ALLREDUCE, kLarge);
  const double latency = 10e-6 + 4 * shape.tiers[1].link.latency;
  EXPECT_NEAR(p.seconds, latency + 1.5 * kLarge / shape.tiers[1].slowest_child, 1e-9);
  EXPECT_EQ(p.busiest, "the network of a host");
  EXPECT_NEAR(p.busiest_load, 1.5 * kLarge, 1);
}

TEST(JointCall, PassesThePcieOfGpusLikeEverythingElse) {
  Layout layout = PlannedGpus(2).layout(kJoint);
  layout.staging->bytes_per_second = 1e9;
  const Shape shape = make_shape(layout, true);
  const Prediction p = predict(shape, parse_recipe("native"), ECH_ALLREDUCE, kLarge);
  EXPECT_EQ(p.busiest, "the PCIe of a GPU");
  EXPECT_NEAR(p.seconds, kLarge / 2 / 1e9, 1e-3) << "the parts of two GPUs at once";
}

// The narrow NICs decide: the other way is as quick, but for the start.
TEST(JointCall, IsNotTakenWhenItIsHardlyQuicker) {
  const Choice choice = choose(shape_of(PlannedGpus(2)), ECH_ALLREDUCE, kLarge);
  EXPECT_NE(to_text(choice.best.recipe).find("native/"), std::string::npos);
  EXPECT_NE(choice.joint_call.find("; taken below 0.91 x"), std::string::npos) << choice.joint_call;
  const std::string text = explain_text(choice);
  EXPECT_NE(text.find("\n  no call over all ranks: predicted 1.00 x; taken below "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  all ranks: ethernet "), std::string::npos) << text;
  EXPECT_NE(text.find(" MB/s (file), 10 us (default)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  rejected native "), std::string::npos) << text << "in one piece";
  EXPECT_NE(explain_json(choice).find(R"("no_call_over_all_ranks":"predicted)"), std::string::npos);
}

// Few bytes: calls, copies and messages one after the other take longer than one call.
TEST(JointCall, IsTakenWhenItIsMuchQuicker) {
  const Choice choice = choose(shape_of(PlannedGpus(2)), ECH_ALLREDUCE, 1024);
  EXPECT_EQ(to_text(choice.best.recipe), "native");
  EXPECT_EQ(choice.joint_call, "");
  EXPECT_NE(choice.reason.find("; next "), std::string::npos) << choice.reason;
}

TEST(JointCall, IsNotTakenForAGuess) {
  PlannedGpus world(2);
  for (Host& host : world.fabric.hosts) host.nics[0].bytes_per_second = {};
  const Choice choice = choose(shape_of(world), ECH_ALLREDUCE, 1024);
  EXPECT_NE(to_text(choice.best.recipe), "native");
  EXPECT_NE(choice.joint_call.find("a guess"), std::string::npos) << choice.joint_call;
  const Choice asked = choose(shape_of(world), ECH_ALLREDUCE, 1024, parse_recipe("native"));
  EXPECT_EQ(to_text(asked.best.recipe), "native") << "asked for";
}

TEST(JointCall, IsNotPossibleForAReasonThatIsSaid) {
  GpuUse use{true, true};
  use.no_joint = "ranks 0 and 1 share a GPU";
  const Choice choice = choose(shape_of(PlannedGpus(2), use), ECH_ALLREDUCE, 1024);
  EXPECT_NE(explain_text(choice).find("\n  no call over all ranks: ranks 0 and 1 share a GPU\n"),
            std::string::npos);
  EXPECT_THROW(choose(shape_of(PlannedGpus(2), use), ECH_ALLREDUCE, 1024, parse_recipe("native")),
               Error);
}

}  // namespace
}  // namespace echelon
