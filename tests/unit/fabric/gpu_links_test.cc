// SPDX-License-Identifier: Apache-2.0
// What plans take for the links between GPUs, and between them and the memory of their host.
#include "lib/fabric/gpu_links.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/plan/choose.h"
#include "tests/unit/fabric/gpu_world.h"

namespace echelon {
namespace {

using test::gpu;
using test::host_with_gpus;
using test::nvswitch;
using test::PlannedGpus;

std::vector<int> first(int count) {
  std::vector<int> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back(i);
  return gpus;
}

TEST(LinkOfGpus, IsAllThatLeavesEachForTheOthers) {
  Host host = host_with_gpus(3);
  host.nvlinks = {{gpu(0), gpu(1), 2, {50e9, Source::kDevice}},
                  {gpu(1), gpu(2), 2, {50e9, Source::kDevice}},
                  {gpu(0), gpu(2), 1, {25e9, Source::kDevice}}};
  const std::optional<Link> link = link_of_gpus(host, first(3));
  ASSERT_TRUE(link);
  EXPECT_EQ(link->kind, LinkKind::kNvlink);
  EXPECT_EQ(link->bytes_per_second, 75e9) << "of the one that has least";
  EXPECT_EQ(link->source, Source::kDevice);
  EXPECT_EQ(link->latency_source, Source::kDefault);
  EXPECT_EQ(link_of_gpus(host, std::vector<int>{0, 1})->bytes_per_second, 50e9)
      << "links to GPUs that do not take part do not count";
  host.nvlinks.pop_back();
  EXPECT_EQ(link_of_gpus(host, first(3))->bytes_per_second, 50e9) << "over the second";
}

TEST(LinkOfGpus, ThroughSwitchesTheSameLinksReachAll) {
  Host host = host_with_gpus(4);
  host.nvswitches.resize(2);
  for (int g = 0; g < 4; ++g)
    for (int s = 0; s < 2; ++s)
      host.nvlinks.push_back({gpu(g), nvswitch(s), 6, {150e9, Source::kFile}});
  EXPECT_EQ(link_of_gpus(host, first(4))->bytes_per_second, 300e9);
  EXPECT_EQ(link_of_gpus(host, first(4))->source, Source::kFile);
}

TEST(LinkOfGpus, IsPcieWhereNvlinkDoesNotJoinThem) {
  Host host = host_with_gpus(3);
  host.nvlinks = {{gpu(0), gpu(1), 2, {50e9, Source::kDevice}}};
  const std::optional<Link> link = link_of_gpus(host, first(3));
  ASSERT_TRUE(link);
  EXPECT_EQ(link->kind, LinkKind::kPcie);
  EXPECT_NEAR(link->bytes_per_second, 32e9 / 3, 1);
  EXPECT_EQ(link->source, Source::kDevice);
}

TEST(LinkOfGpus, IsUnknownUnlessSomebodyLooked) {
  Host host = host_with_gpus(2);
  EXPECT_FALSE(link_of_gpus(host, first(2)));
  for (Gpu& one : host.gpus) one.uuid = "GPU-1";  // NVML was asked, and told of no link
  EXPECT_EQ(link_of_gpus(host, first(2))->kind, LinkKind::kPcie);
  EXPECT_FALSE(link_of_gpus(host, std::vector<int>{0, -1}));
  EXPECT_FALSE(link_of_gpus(host, std::vector<int>{0, 7}));
}

TEST(LinkToMemory, IsSharedWhereBridgesAre) {
  const Host host = host_with_gpus(4);
  EXPECT_EQ(link_to_memory(host, first(1))->bytes_per_second, 16e9);
  EXPECT_EQ(link_to_memory(host, first(2))->bytes_per_second, 16e9);
  EXPECT_EQ(link_to_memory(host, first(4))->bytes_per_second, 8e9);
  EXPECT_EQ(link_to_memory(host, std::vector<int>{0, 0})->bytes_per_second, 8e9) << "two ranks";
  EXPECT_EQ(link_to_memory(host, first(2))->source, Source::kDevice);
}

// As sysfs shows the bridge above a GPU that is idle, when NVML has told what the GPU can.
TEST(LinkToMemory, ABridgeAboveOneAloneDoesNotNarrowIt) {
  Host host = host_with_gpus(1);
  host.pci[1].bytes_per_second.value = 4e9;
  EXPECT_EQ(link_to_memory(host, first(1))->bytes_per_second, 16e9);
  host.pci[2].bytes_per_second = {};
  EXPECT_FALSE(link_to_memory(host, first(1)));
}

TEST(LayoutOfGpus, GuessesAreOfTheSourceDefault) {
  PlannedGpus world(2);
  for (Host& host : world.fabric.hosts) host.pci.clear();
  const Layout layout = world.layout();
  EXPECT_EQ(validate(layout), "");
  const Link host = layout.tier(TierKind::kHost)->groups[0].link;
  EXPECT_EQ(host.kind, LinkKind::kNvlink);
  EXPECT_EQ(host.source, Source::kDefault);
  ASSERT_TRUE(layout.staging);
  EXPECT_EQ(layout.staging->kind, LinkKind::kPcie);
  EXPECT_EQ(layout.staging->source, Source::kDefault);
  EXPECT_EQ(layout.staging->bytes_per_second, default_link(LinkKind::kPcie).bytes_per_second);
}

TEST(LayoutOfGpus, TakesWhatEveryHostHas) {
  PlannedGpus world(2);
  world.fabric.hosts[1].nvlinks = {{gpu(0), gpu(1), 4, {100e9, Source::kDevice}}};
  world.fabric.hosts[1].pci[1].bytes_per_second.value = 10e9;
  const Layout layout = world.layout();
  const auto& groups = layout.tier(TierKind::kHost)->groups;
  EXPECT_EQ(groups[0].link.source, Source::kDefault);
  EXPECT_EQ(groups[1].link.bytes_per_second, 100e9);
  EXPECT_EQ(layout.staging->bytes_per_second, 5e9) << "of the slower host";
  const Layout by_messages = world.layout({false, false});
  EXPECT_EQ(by_messages.tier(TierKind::kHost)->groups[1].link.kind, LinkKind::kShm);
  EXPECT_FALSE(by_messages.staging) << "from the GPUs' memory";
}

TEST(LayoutOfGpus, TheFabricFileGoesFirstWhereItSpeaksOfGpus) {
  PlannedGpus world(2);
  world.fabric.tiers = {{TierKind::kHost, LinkKind::kNvlink, {200e9, Source::kFile}, {}}};
  EXPECT_EQ(world.layout().tier(TierKind::kHost)->groups[0].link.bytes_per_second, 200e9);
  EXPECT_EQ(world.layout().tier(TierKind::kHost)->groups[0].link.source, Source::kFile);
  world.fabric.tiers[0].kind = LinkKind::kShm;
  EXPECT_EQ(world.layout().tier(TierKind::kHost)->groups[0].link.source, Source::kDefault);
}

Shape shape_with(std::optional<Link> staging) {
  const PlannedGpus world(2);
  Layout layout = world.layout();
  layout.staging = staging;
  Shape shape = make_shape(layout, true);
  shape.reduce_speed = kGpuReduceSpeed;
  return shape;
}

constexpr double kBytes = 256 << 20;

double time_of(const Shape& shape, const std::string& recipe) {
  return predict(shape, parse_recipe(recipe), ECH_ALLREDUCE, kBytes).seconds;
}

TEST(Staging, CostsEveryMessageTwoCopies) {
  const Link link{LinkKind::kPcie, 10e-6, 10e9, Source::kDevice, Source::kDefault};
  const std::string uncut = "native/ring";
  const double direct = time_of(shape_with({}), uncut);
  // The ring of two hosts has two rounds, in which each rank sends its half of the buffer in all.
  const double copies = 2 * (kBytes / 2 / 10e9 + 2 * 10e-6);
  EXPECT_NEAR(time_of(shape_with(link), uncut), direct + copies, 1e-9);
}

TEST(Staging, OfOneSegmentIsHiddenByTheNetworkOfOthersOrHidesIt) {
  const Link fast{LinkKind::kPcie, 0, 100e9, Source::kDevice, Source::kDefault};
  const Link slow{LinkKind::kPcie, 0, 1e9, Source::kDevice, Source::kDefault};
  const std::string cut = "native/ring@4MiB";
  EXPECT_LT(time_of(shape_with(fast), cut), 1.1 * time_of(shape_with({}), cut));
  const Prediction narrow = predict(shape_with(slow), parse_recipe(cut), ECH_ALLREDUCE, kBytes);
  EXPECT_EQ(narrow.busiest, "the PCIe of a GPU");
  EXPECT_NEAR(narrow.busiest_load, kBytes / 2, 1);
  EXPECT_NEAR(narrow.seconds, kBytes / 2 / 1e9, 0.1 * narrow.seconds);
  EXPECT_LT(narrow.seconds, 0.6 * time_of(shape_with(slow), "native/ring")) << "both directions";
}

TEST(Staging, DoesNotConcernWhatNcclDoes) {
  const PlannedGpus world(1);
  Layout layout = world.layout();
  layout.staging->bytes_per_second = 1;
  EXPECT_LT(time_of(make_shape(layout, true), "native"), 1);
}

TEST(Explanation, SaysTheSourceOfEveryNumber) {
  PlannedGpus world(2);
  for (Host& host : world.fabric.hosts)
    host.nvlinks = {{gpu(0), gpu(1), 4, {100e9, Source::kDevice}}};
  const Choice choice = choose(make_shape(world.layout(), true), ECH_ALLREDUCE, kBytes);
  const std::string text = explain_text(choice);
  for (const char* line : {"\n  host: nvlink 100000 MB/s (device), 10 us (default)\n",
                           "\n  staging: pcie 16000 MB/s (device), 10 us (default)\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_NE(text.find("\n  cluster: ethernet "), std::string::npos) << text;
  EXPECT_NE(text.find(" MB/s (file), 20 us (default), each part "), std::string::npos) << text;
  const std::string json = explain_json(choice);
  EXPECT_NE(json.find(R"("where":"staging","kind":"pcie","bytes_per_second":16000000000.0,)"
                      R"("source":"device","latency_us":10.0,"latency_source":"default")"),
            std::string::npos)
      << json;
}

}  // namespace
}  // namespace echelon
