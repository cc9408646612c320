// SPDX-License-Identifier: Apache-2.0
#include "lib/tuning/tuning.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "lib/plans.h"
#include "lib/shm_options.h"

namespace echelon {
namespace {

constexpr const char* kTwoHosts = R"(
[[host]]
name = "node[1-2]"
ranks = 2
[[host.nic]]
name = "eth0"
bandwidth = "1 gbit/s"
)";

struct Machines {
  Fabric fabric = expand(parse_fabric_file(kTwoHosts, "fabric"));
  std::vector<int> hosts = {0, 0, 1, 1};

  Shape shape() const { return make_shape(make_layout(fabric, spread_ranks(fabric, 4)), true); }
  MachineKey key() const { return machine_key(fabric, hosts); }
};

TunedPlan tuned(std::size_t above, std::size_t up_to, const char* plan) {
  return {ECH_ALLREDUCE,
          above,
          up_to,
          {parse_recipe(plan), 212e-6, parse_recipe("native/ring@64KiB"), 260.5e-6},
          9};
}

Tuning sample() {
  Tuning tuning;
  tuning.machine = Machines().key();
  tuning.shared_memory.one_shot = 0;
  tuning.shared_memory.read = TunedSharedMemory::kNever;
  tuning.shared_memory.direct = 8 << 20;
  tuning.shared_memory.stores = 0x2;
  tuning.shared_memory.results = 0x10;
  tuning.shared_memory.kernel_copy = 0x9 | std::uint64_t{1} << 46;
  tuning.plans = {tuned(0, 4, "ring"), tuned(32768, 65536, "leader:native/one_shot")};
  tuning.plans.push_back(tuning.plans[0]);
  tuning.plans.back().collective = ECH_BROADCAST;
  return tuning;
}

std::string error_of(const std::string& text) {
  try {
    parse_tuning(text, "t.toml");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    return e.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, text.npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(Tuning, ReadsWhatItWrites) {
  const Tuning tuning = sample();
  EXPECT_EQ(parse_tuning(to_toml(tuning), "t.toml"), tuning) << to_toml(tuning);
  Tuning none;
  none.machine = tuning.machine;
  EXPECT_EQ(parse_tuning(to_toml(none), "t.toml"), none);
}

TEST(Tuning, ErrorsNameTheLineAndWhatWasExpected) {
  const std::string good = to_toml(sample());
  const struct {
    std::string text, expected;
  } kCases[] = {
      {"", "version: missing"},
      {"version = 1\n", "machine: missing"},
      {replaced(good, "version = 1", "version = 2"), "t.toml:1: version: 2; expected a whole"},
      {replaced(good, "hosts = \"2\"", "hosts = 2"), "machine.hosts: a number; expected a text"},
      {replaced(good, "cores = ", "kernels = "), "machine.cores: missing"},
      {replaced(good, "racks = ", "more = 1\nracks = "), "machine.more: unknown key"},
      {replaced(good, "\"never\"", "\"soon\""),
       "shared_memory.read: \"soon\"; expected a size such as \"64 KiB\", or \"never\""},
      {replaced(good, "\"8 MiB\"", "\"2097152 GiB\""), "shared_memory.direct: \"2097152 GiB\""},
      {replaced(good, "direct = ", "directs = "), "shared_memory.directs: unknown key"},
      {replaced(good, "\"-+......\"", "\"-+.....\""),
       "kernel_copy.additions: \"-+.....\"; expected a letter for each of 8 sizes"},
      {replaced(good, "\"-+......\"", "\"-*......\""), "additions: \"-*......\"; expected"},
      {replaced(good, "allgathers = ", "gathers = "), "stores.gathers: unknown key"},
      {replaced(good, "allreduce", "alreduce"),
       "plan.collective: \"alreduce\"; expected allreduce,"},
      {replaced(good, "\"broadcast\"", "\"barrier\""), "plan.collective: \"barrier\"; expected"},
      {replaced(good, "\"ring\"", "\"rung\""), "\"rung\" is no algorithm"},
      {replaced(good, "\"212 us\"", "\"soon\""), "plan.time: \"soon\"; expected a time such as"},
      {replaced(good, "up_to = 4", "up_to = 0"), "plan.up_to: 0; expected a whole number from 1"},
      {replaced(good, "above = 32768", "above = 3"), "plan.above: 3; expected at least 4"},
      {replaced(good, "samples = 9", "samples = 0"), "plan.samples: 0; expected"},
      {replaced(good, "samples = 9", "sample = 9"), "plan.samples: missing"},
      {replaced(good, "[machine]", "[machine"), "t.toml:"},
  };
  for (const auto& c : kCases) {
    const std::string error = error_of(c.text);
    EXPECT_NE(error.find(c.expected), error.npos) << error << "\nlacks " << c.expected;
    EXPECT_NE(error.find("t.toml"), error.npos) << error;
  }
}

TEST(Tuning, APlanHoldsForItsSizesAndCollective) {
  const std::vector<TunedPlan> plans = sample().plans;
  EXPECT_EQ(find_tuned(plans, ECH_ALLREDUCE, 1), &plans[0]);
  EXPECT_EQ(find_tuned(plans, ECH_ALLREDUCE, 4), &plans[0]);
  EXPECT_EQ(find_tuned(plans, ECH_ALLREDUCE, 8), nullptr);
  EXPECT_EQ(find_tuned(plans, ECH_ALLREDUCE, 32768), nullptr);
  EXPECT_EQ(find_tuned(plans, ECH_ALLREDUCE, 65536), &plans[1]);
  EXPECT_EQ(find_tuned(plans, ECH_BROADCAST, 2), &plans[2]);
  EXPECT_EQ(find_tuned(plans, ECH_REDUCE, 2), nullptr);
}

TEST(Tuning, OneHostNeedsMessagesForAllButNative) {
  EXPECT_FALSE(needs_messages({}));
  EXPECT_FALSE(needs_messages(std::vector{tuned(0, 4, "native"), tuned(4, 8, "native@64KiB")}));
  EXPECT_TRUE(needs_messages(std::vector{tuned(0, 4, "native"), tuned(4, 8, "ring")}));
}

TEST(Tuning, ImpossiblePlansAreNamed) {
  Tuning tuning = sample();
  EXPECT_NO_THROW(require_possible(tuning, Machines().shape()));
  tuning.plans[1] = tuned(8, 16, "native/ring/ring");
  try {
    require_possible(tuning, Machines().shape());
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "plan \"native/ring/ring\" cannot do allreduce (of 9 to 16 bytes) on this layout");
  }
}

TEST(TunedSharedMemory, AreThoseOfSharedMemory) {
  TunedSharedMemory tuned;
  const shm::Thresholds built_in = shm_options("auto", tuned, {}).thresholds;
  EXPECT_EQ(built_in.one_shot, shm::Thresholds().one_shot);
  EXPECT_EQ(built_in.read, SIZE_MAX);
  EXPECT_EQ(shm_options("auto", tuned, {}).known, shm::KnownWays());
  tuned = {.one_shot = 1, .read = 2, .direct = 3, .stores = 4, .kernel_copy = 5, .results = 6};
  const ShmOptions options = shm_options("auto", tuned, {});
  EXPECT_EQ(options.known, (shm::KnownWays{.stores = 4, .reading = 5, .results = 6}));
  const shm::Thresholds& t = options.thresholds;
  EXPECT_EQ((std::array{t.one_shot, t.one_shot_pair, t.read, t.direct}),
            (std::array<std::size_t, 4>{1, 1, 2, 3}));
}

TEST(TunedSharedMemory, HasALetterForEachClass) {
  Tuning none;
  none.machine = sample().machine;
  const Tuning tuning = parse_tuning(to_toml(none) +
                                         "[shared_memory.kernel_copy]\n"
                                         "allgathers = \"...-....\"\nbroadcasts = \"..+.....\"\n"
                                         "[shared_memory.results]\nadditions = \".......+\"\n",
                                     "t.toml");
  const shm::KnownWays known = shm_options("auto", tuning.shared_memory, {}).known;
  const auto word = [](shm::Finding found, const shm::TrialCall& call) {
    return shm::word_of(found, shm::trial_class(call));
  };
  EXPECT_EQ(known.reading,
            word(shm::Finding::kUsual, {GroupAction::kAllgather, 256 << 10}) |
                word(shm::Finding::kOther, {GroupAction::kAllgather, 64 << 10, true}));
  EXPECT_EQ(known.results, word(shm::Finding::kOther, {GroupAction::kAllreduce, 64 << 20}));
  EXPECT_EQ(known.stores, 0u);
}

TEST(ShmOptions, KnowTheSmallestThirdLevelCache) {
  Host host;
  EXPECT_EQ(shm_options("auto", {}, host).thresholds.cache, SIZE_MAX);
  host.caches = {{1, 32 << 10, {}}, {3, 32 << 20, {}}, {3, 8 << 20, {}}, {4, 1 << 20, {}}};
  EXPECT_EQ(shm_options("auto", {}, host).thresholds.cache, 8u << 20);
}

TEST(ShmOptions, AddUpTheThirdLevelCaches) {
  Host host;
  EXPECT_EQ(shm_options("auto", {}, host).thresholds.caches, SIZE_MAX);
  host.caches = {{2, 1 << 20, {}}, {3, 0, {}}};
  EXPECT_EQ(shm_options("auto", {}, host).thresholds.caches, SIZE_MAX) << "no size is known";
  host.caches = {{3, 32 << 20, std::vector<CpuSet>(2)}, {3, 8 << 20, {}}};
  EXPECT_EQ(shm_options("auto", {}, host).thresholds.caches, 72u << 20);
}

class HostShareTest : public testing::Test {
 protected:
  static Host host(int first, int last) {
    Host host;
    host.caches = {{3, 8 << 20, {CpuSet::range(first, last)}}};
    return host;
  }
  HostShareTest() { fabric_.hosts = {host(0, 1), host(0, 1), host(2, 3), host(0, 1)}; }

  static RankPlace place(int host, const char* machine, const CpuSet& cpus) {
    RankPlace place;
    place.host = host;
    place.machine = machine;
    place.cpus = cpus;
    return place;
  }

  const CpuSet few_ = CpuSet::range(0, 1), many_ = CpuSet::range(0, 3);
  Fabric fabric_;
  const std::vector<RankPlace> places_{place(0, "m", few_),  place(0, "m", few_),
                                       place(1, "m", few_),  place(2, "m", few_),
                                       place(3, "n", many_), place(3, "n", many_)};
  HostShare of(std::size_t rank) { return host_share(rank, places_, fabric_); }
};

TEST_F(HostShareTest, IsOfTheRanksThatSeeTheSameCaches) {
  EXPECT_DOUBLE_EQ(of(0).caches, 2.0 / 3);
  EXPECT_DOUBLE_EQ(of(2).caches, 1.0 / 3);
  EXPECT_EQ(of(3).caches, 1) << "other CPUs of that machine";
  EXPECT_EQ(of(5).caches, 1) << "another machine";
  EXPECT_EQ(shm_options("auto", {}, fabric_.hosts[0], {0.25}).thresholds.caches, 2u << 20);
  EXPECT_EQ(shm_options("auto", {}, fabric_.hosts[0], {0.25}).thresholds.cache, 8u << 20);
}

TEST_F(HostShareTest, IsCrowdedByTheRanksOfTheOwnMachine) {
  EXPECT_TRUE(of(0).crowded) << "four on two CPUs";
  EXPECT_TRUE(of(3).crowded) << "with those of another host there";
  EXPECT_FALSE(of(5).crowded) << "two on four";
  const std::vector<RankPlace> apart{place(0, "m", CpuSet::range(0, 0)),
                                     place(0, "m", CpuSet::range(0, 0)),
                                     place(1, "m", CpuSet::range(1, 3))};
  EXPECT_TRUE(host_share(0, apart, fabric_).crowded) << "others have CPUs of their own";
  EXPECT_FALSE(host_share(2, apart, fabric_).crowded);
  EXPECT_TRUE(shm_options("auto", {}, fabric_.hosts[0], of(0)).thresholds.crowded);
  EXPECT_FALSE(shm_options("auto", {}, fabric_.hosts[3], of(5)).thresholds.crowded);
}

TEST(TunedSharedMemory, GiveWayToWhatIsAskedForOfSingleCopy) {
  const TunedSharedMemory tuned{.one_shot = 1, .read = 2, .direct = {}};
  const shm::Thresholds on = shm_options("on", tuned, {}).thresholds;
  const shm::Thresholds off = shm_options("off", tuned, {}).thresholds;
  EXPECT_EQ((std::array{on.read, off.read}), (std::array{shm::kSingleCopyFrom, SIZE_MAX}));
  EXPECT_EQ((std::array{on.address, off.address}),
            (std::array<std::optional<bool>, 2>{true, false}));
  EXPECT_FALSE(shm_options("auto", tuned, {}).thresholds.address) << "is tried";
  EXPECT_EQ((std::array{on.one_shot, off.one_shot}), (std::array<std::size_t, 2>{1, 1}));
}

TEST(MachineKey, SaysWhatTheMeasurementHoldsFor) {
  const MachineKey key = Machines().key();
  EXPECT_EQ(key.texts[0], "2");
  EXPECT_EQ(key.texts[1], "2+2");
  EXPECT_EQ(key.texts[2], "2 x none");
  EXPECT_EQ(key.texts[3], "2 x ethernet 1 gbit/s");
  EXPECT_EQ(difference(key, key), "");
}

TEST(MachineKey, NamesTheFirstDifference) {
  const Machines here;
  Machines other;
  other.hosts = {0, 1, 0, 1};
  EXPECT_EQ(difference(here.key(), other.key()),
            "ranks is \"2+2\" here, but \"0 1 0 1\" where it was measured");
  other = {};
  other.fabric.hosts[1].nics[0].bytes_per_second = {1.25e9, Source::kFile};
  EXPECT_EQ(difference(here.key(), other.key()),
            "nics is \"2 x ethernet 1 gbit/s\" here, but \"ethernet 1 gbit/s, ethernet 10 gbit/s\" "
            "where it was measured");
  other = {};
  other.fabric.hosts[0].packages.push_back({"Model 7", CpuSet::range(0, 1), {}});
  EXPECT_NE(difference(here.key(), other.key()), "");
}

TEST(MachineKey, NamesAndProbedNumbersHaveNoInfluence) {
  Machines other;
  other.fabric.hosts[1].name = "elsewhere";
  other.fabric.tiers.push_back(
      {TierKind::kCluster, {}, {5e7, Source::kMeasured}, {1e-3, Source::kMeasured}});
  EXPECT_EQ(difference(Machines().key(), other.key()), "");
}

TEST(MachineKey, HasWhatAFileSaysOfTheTiers) {
  Machines other;
  other.fabric.tiers.push_back(
      {TierKind::kCluster, LinkKind::kEthernet, {5e7, Source::kFile}, {1e-3, Source::kFile}});
  EXPECT_EQ(
      difference(Machines().key(), other.key()),
      "tiers is \"none\" here, but \"cluster ethernet 0.4 gbit/s 1000 us\" where it was measured");
}

TEST(TunedPlans, WinOverTheModelAndSaySo) {
  Plans plans(Machines().shape(), 0, {}, sample().plans);
  const Choice choice = plans.explain({ECH_ALLREDUCE, 50'000, 0});
  EXPECT_EQ(to_text(choice.best.recipe), "leader:native/one_shot");
  EXPECT_EQ(choice.reason,
            "measured by echelon tune: 212 us, the model's choice native/ring@64KiB took 260.5 us");
  EXPECT_EQ(plans.get({ECH_ALLREDUCE, 50'000, 0}).whole.plan, "leader:native/one_shot");
  for (const Candidate& c : choice.rejected) EXPECT_NE(to_text(c.recipe), "leader:native/one_shot");
  Plans untuned(Machines().shape(), 0, {});
  const Choice chosen = untuned.explain({ECH_ALLREDUCE, 20'000, 0});
  EXPECT_EQ(plans.explain({ECH_ALLREDUCE, 20'000, 0}).reason, chosen.reason) << "not measured";
}

TEST(TunedPlans, GiveWayToWhatIsAskedForAndToSlowLinks) {
  Plans plans(Machines().shape(), 0, parse_recipe("ring"), sample().plans);
  const PlanKey key{ECH_ALLREDUCE, 65'536, 0};
  EXPECT_EQ(plans.explain(key).reason, "asked for");
  plans.want({});
  EXPECT_NE(plans.explain(key).reason.find("measured by"), std::string::npos);
  plans.want(parse_recipe("native/ring"));
  EXPECT_EQ(plans.get(key).choice.best.recipe.algorithms.back(), Algorithm::kRing);
  plans.want({});
  EXPECT_TRUE(plans.is_tuned());
  plans.replan(Machines().shape());
  EXPECT_FALSE(plans.is_tuned());
  EXPECT_EQ(plans.explain(key).reason.find("measured by"), std::string::npos);
}

}  // namespace
}  // namespace echelon
