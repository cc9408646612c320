// SPDX-License-Identifier: Apache-2.0
// NVLink domains that span hosts, as a tier of plans for GPUs.
#include <gtest/gtest.h>

#include "lib/plan/choose.h"
#include "tests/unit/fabric/gpu_world.h"

namespace echelon {
namespace {

using test::gpu;
using test::nvswitch;
using test::PlannedGpus;

const GpuUse kNccl{.native = true, .staged = true, .domains = true};

// Hosts of two GPUs; "" is a host whose NVLinks end in it.
PlannedGpus with_domains(const std::vector<std::string>& domains) {
  PlannedGpus world(static_cast<int>(domains.size()));
  for (std::size_t h = 0; h < domains.size(); ++h)
    for (Gpu& one : world.fabric.hosts[h].gpus) one.fabric_uuid = domains[h];
  return world;
}

std::vector<Group> groups_of(const PlannedGpus& world, const GpuUse& use = kNccl) {
  return gpu_groups(make_layout(world.fabric, world.places), world.fabric, world.places, use);
}

TEST(GpuGroups, AreDomainsOrHosts) {
  PlannedGpus world = with_domains({"a", "b", "", "a"});
  EXPECT_EQ(groups_of(world), (std::vector{Group({0, 1, 6, 7}), Group({2, 3}), Group({4, 5})}));
  EXPECT_EQ(groups_of(world, {true, true}).size(), 4u) << "an NCCL that knows no domains";
  world.fabric.hosts[3].gpus[1].clique = 1;
  EXPECT_EQ(groups_of(world).size(), 4u) << "a host belongs to a domain as a whole";
  world.fabric.hosts[3].gpus[0].clique = 1;
  EXPECT_EQ(groups_of(world).size(), 4u) << "of one uuid, but two cliques";
  world.fabric.hosts[3].gpus[0].clique = world.fabric.hosts[3].gpus[1].clique = 0;
  world.places[7].gpu = -1;
  EXPECT_EQ(groups_of(world).size(), 4u) << "a GPU that the fabric does not know";
}

TEST(GpuGroups, OfADomainEndWhereRacksEnd) {
  PlannedGpus world = with_domains({"a", "a", "a", "a"});
  EXPECT_EQ(groups_of(world).size(), 1u);
  world.fabric.racks = {{"r0", {0, 1}, {}}, {"r1", {2, 3}, {}}};
  EXPECT_EQ(groups_of(world), (std::vector{Group({0, 1, 2, 3}), Group({4, 5, 6, 7})}));
}

TEST(LayoutOfDomains, HasThemInThePlaceOfHosts) {
  const PlannedGpus world = with_domains({"a", "b", "a", "b", ""});
  const Layout layout = world.layout(kNccl);
  EXPECT_EQ(validate(layout), "");
  ASSERT_EQ(layout.tiers.size(), 2u);
  EXPECT_EQ(layout.tiers[0].kind, TierKind::kDomain);
  EXPECT_EQ(layout.tiers[0].groups.size(), 3u);
  EXPECT_EQ(layout.tiers[0].groups[0].link.kind, LinkKind::kNvlink);
  const TierGroup& all = layout.tiers[1].groups[0];
  EXPECT_EQ(all.children, (std::vector{Group({0, 1, 4, 5}), Group({2, 3, 6, 7}), Group({8, 9})}));
  EXPECT_EQ(all.child_bandwidth, (std::vector{25e9, 25e9, 12.5e9})) << "all NICs of a domain";
  EXPECT_EQ(layout.host_count(), 5);
}

TEST(LayoutOfDomains, IsOneTierWhereOneDomainHasAll) {
  const Layout layout = with_domains({"a", "a"}).layout(kNccl);
  EXPECT_EQ(validate(layout), "");
  ASSERT_EQ(layout.tiers.size(), 1u);
  EXPECT_EQ(layout.tiers[0].groups[0].ranks, Group::range(4));
  const Choice choice = choose(make_shape(layout, true), ECH_ALLREDUCE, 64 << 20);
  EXPECT_TRUE(to_text(choice.best.recipe).starts_with("native")) << to_text(choice.best.recipe);
  EXPECT_EQ(choice.best.prediction.busiest, "the NVLinks of a domain");
  EXPECT_EQ(choice.joint_call, "");
}

TEST(LayoutOfDomains, HidesRacksThatAreDomainsButNotTheirUplinks) {
  PlannedGpus world = with_domains({"a", "a", "b", "b"});
  world.fabric.racks = {{"r0", {0, 1}, {10e9, Source::kFile}}, {"r1", {2, 3}, {}}};
  const Layout layout = world.layout(kNccl);
  EXPECT_EQ(validate(layout), "");
  ASSERT_EQ(layout.tiers.size(), 2u);
  EXPECT_EQ(layout.tiers[1].kind, TierKind::kCluster);
  EXPECT_EQ(layout.tiers[1].groups[0].child_bandwidth, (std::vector{10e9, 25e9}));
}

TEST(LayoutOfDomains, KnowsTheirLinksFromSwitchesOrTheFabricFile) {
  PlannedGpus world = with_domains({"a", "a"});
  const auto link = [&] { return world.layout(kNccl).tiers[0].groups[0].link; };
  EXPECT_EQ(link().source, Source::kDefault);
  for (Host& host : world.fabric.hosts) {
    host.nvswitches.resize(1);
    host.nvlinks = {{gpu(0), nvswitch(0), 18, {900e9, Source::kDevice}},
                    {gpu(1), nvswitch(0), 18, {900e9, Source::kDevice}}};
  }
  world.fabric.hosts[1].nvlinks[1].bytes_per_second.value = 450e9;
  EXPECT_EQ(link().bytes_per_second, 450e9) << "of the GPU that has least";
  EXPECT_EQ(link().source, Source::kDevice);
  world.fabric.tiers = {{TierKind::kDomain, LinkKind::kNvlink, {700e9, Source::kFile}, {}}};
  EXPECT_EQ(link().bytes_per_second, 700e9);
  EXPECT_EQ(link().source, Source::kFile);
}

// What NVLink joins does not pass the NICs.
TEST(PlansOverDomains, SendLessThanPlansOverHosts) {
  const PlannedGpus world = with_domains({"a", "b", "a", "b"});
  constexpr double kBytes = 256 << 20;
  const Shape hosts = make_shape(world.layout({true, true}), true);
  const Shape domains = make_shape(world.layout(kNccl), true);
  const Prediction by_hosts = choose(hosts, ECH_ALLREDUCE, kBytes).best.prediction;
  const Prediction by_domains = choose(domains, ECH_ALLREDUCE, kBytes).best.prediction;
  EXPECT_LT(by_domains.seconds, 0.6 * by_hosts.seconds);
  const Composition both = composition_of(domains, parse_recipe("native/ring"), ECH_ALLREDUCE, 0);
  EXPECT_EQ(both.tiers[0].groups, (std::vector{Group({0, 1, 4, 5}), Group({2, 3, 6, 7})}));
  EXPECT_EQ(both.tiers[0].name, "domain");
}

}  // namespace
}  // namespace echelon
