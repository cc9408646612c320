// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <deque>

#include "tests/conformance/group_data.h"
#include "tests/conformance/group_suite.h"
#include "transports/shm/address.h"
#include "transports/shm/lane.h"
#include "transports/shm/segment.h"
#include "transports/shm/shm_group.h"
#include "transports/shm/way_trial.h"

namespace echelon::test {
namespace {

GroupCase shm_case(const char* name, bool processes) {
  return {name, processes, [] { return make_shm_group(); }};
}

INSTANTIATE_TEST_SUITE_P(Shm, GroupSuite,
                         testing::Values(shm_case("Processes", true), shm_case("Threads", false)),
                         case_name);

// Of few bytes and of more: who gets nothing waits for nobody, twice. The third call would take the
// line and the slot of the first, and waits.
TEST(ShmGroup, WhoOnlyGivesGoesTwoCallsAhead) {
  for (std::size_t bytes : {8, 800})
    for (GroupAction action : {GroupAction::kAllgather, GroupAction::kReduceScatter}) {
      const int giver = action == GroupAction::kAllgather ? 0 : 1;
      std::vector<Call> calls;
      for (std::size_t at : {0, 4, 8})
        calls.push_back({action, ECH_FLOAT32, ECH_SUM, false, {{at, 0, bytes, 0}}});
      run_group(shm_case("Processes", true), 2, [&](GroupRank& rank) {
        std::deque<Trial> trials;
        for (const Call& call : calls) trials.emplace_back(call, rank);
        if (rank.self == giver) {
          rank.run(0, trials[0].work());
          rank.run(0, trials[1].work());
          rank.start(0, trials[2].work());
          for (int i = 0; i < 1000; ++i) EXPECT_FALSE(rank.engine.poll(0));
        }
        rank.board.barrier(2);
        if (rank.self == giver)
          rank.wait(0);
        else
          for (Trial& trial : trials) rank.run(0, trial.work());
        for (Trial& trial : trials) trial.expect_correct();
      });
    }
}

// Among threads the address of a header is good for all.
shm::BellLine& bell(const GroupRank& rank, int member) {
  const auto address = shm::Address::parse(rank.board.address(member));
  auto* header = reinterpret_cast<shm::SegmentHeader*>(address.header);
  return *reinterpret_cast<shm::BellLine*>(header + 1);
}

// Of a member's first lane.
const shm::LaneLines& lines(const GroupRank& rank, int member) {
  return *reinterpret_cast<const shm::LaneLines*>(&bell(rank, member) + 1);
}

// The round that a ready line shows, and one.
std::uint64_t round_of(const shm::ReadyLine& line) {
  return line.ready.load() & ((std::uint64_t{1} << 48) - 1);
}

std::uint64_t staged_rounds(const GroupRank& rank, int member) {
  const auto& ready = lines(rank, member).ready;
  return std::max(round_of(ready[0]), round_of(ready[1]));
}

// Where the others found what it gave in its last call.
std::uint64_t place_of_input(const GroupRank& rank, int member) {
  const auto& ready = lines(rank, member).ready;
  shm::Announced last;
  std::memcpy(&last, ready[round_of(ready[1]) > round_of(ready[0]) ? 1 : 0].payload, sizeof last);
  return last.memory.input.where;
}

// It would wake the others for nothing.
TEST(ShmGroup, WhoShowsNothingRaisesNoFlag) {
  const GroupCase made{"Flags", false, [] { return make_shm_group({}); }};
  for (const GroupAction action : {GroupAction::kAllgather, GroupAction::kReduceScatter})
    run_group(made, 3, [&](GroupRank& rank) {
      const Call call{action, ECH_FLOAT32, ECH_SUM, false, {{0, 0, 256 << 10, 0}}};
      const bool shows = (action == GroupAction::kAllgather) == (rank.self == 0);
      Trial trial(call, rank);
      rank.run(0, trial.work());
      trial.expect_correct();
      EXPECT_EQ(staged_rounds(rank, rank.self) > 0, shows);
      Trial other({GroupAction::kAllreduce, ECH_FLOAT32, ECH_SUM, false, call.parts}, rank);
      rank.run(0, other.work());  // in which all do
      other.expect_correct();
      EXPECT_GT(staged_rounds(rank, rank.self), 0u);
    });
}

using Findings = std::atomic<std::uint64_t> shm::BellLine::*;

bool has_found(const GroupRank& rank, int member, Findings findings, const shm::TrialCall& call) {
  const std::uint64_t word = (bell(rank, member).*findings).load();
  return shm::finding_in(word, shm::trial_class(call)) != shm::Finding::kUnknown;
}

// Of the first lane of our own segment, ever.
std::uint64_t finished_rounds(const GroupRank& rank) {
  return lines(rank, rank.self).done.finished.load();
}

// Rounds of an allreduce of two members, each of which owns half of it.
void expect_rounds(std::size_t bytes, std::size_t cache, std::uint64_t rounds) {
  ShmOptions options;
  options.thresholds.cache = cache;
  const GroupCase made{"Cache", false, [=] { return make_shm_group(options); }};
  run_group(made, 2, [&](GroupRank& rank) {
    const std::uint64_t before = finished_rounds(rank);
    Trial trial({GroupAction::kAllreduce, ECH_FLOAT32, ECH_SUM, false, {{0, 0, bytes, 0}}}, rank);
    rank.run(0, trial.work());
    trial.expect_correct();
    EXPECT_EQ(finished_rounds(rank) - before, rounds) << bytes << " bytes, cache " << cache;
  });
}

TEST(ShmGroup, CutsCallsOfTwoForTheirCache) {
  constexpr std::size_t kMiB = 1 << 20;
  expect_rounds(kMiB, SIZE_MAX, 2);       // unknown: slots of 512 KiB, half for each owner
  expect_rounds(kMiB, 8 * kMiB, 8);       // slots of 128 KiB
  expect_rounds(kMiB, 4 * kMiB, 16);      // of 64 KiB
  expect_rounds(8 * kMiB, 8 * kMiB, 16);  // does not fit anyway
}

// In which rank 0 owns all, but of an allgather that is no broadcast.
Call call_of(const shm::TrialCall& made, int ranks) {
  Call call{made.action, ECH_FLOAT32, ECH_SUM, false, {{0, 0, made.bytes, 0}}};
  if (made.action == GroupAction::kAllgather && !made.one_owner)
    call.parts = even_parts(ranks, made.bytes / sizeof(float), ECH_FLOAT32);
  return call;
}

void make(const shm::TrialCall& made, int calls, GroupRank& rank) {
  for (int i = 0; i < calls; ++i) {
    Trial trial(call_of(made, rank.size), rank);
    rank.run(0, trial.work());
    trial.expect_correct();
  }
  rank.board.barrier(rank.size);
}

// Makes so many calls, then looks whether members know what is best.
void expect_known(Findings findings, const shm::TrialCall& made, std::vector<bool> known,
                  int calls = 40) {
  run_group(shm_case("Threads", false), static_cast<int>(known.size()), [&](GroupRank& rank) {
    make(made, calls, rank);
    for (int m = 0; m < rank.size; ++m)
      EXPECT_EQ(has_found(rank, m, findings, made), known[m])
          << "rank " << m << ", " << made.bytes << " bytes";
    rank.board.barrier(rank.size);
  });
}

constexpr Findings kStores = &shm::BellLine::stores, kReading = &shm::BellLine::reading;

constexpr std::size_t kLarge = 256 << 10;
constexpr shm::TrialCall kBroadcast{GroupAction::kAllgather, kLarge, true};
constexpr shm::TrialCall kReduce{GroupAction::kReduceScatter, kLarge};
constexpr shm::TrialCall kAllreduce{GroupAction::kAllreduce, kLarge};

// Who takes something from others finds out how it had better be written, and nobody has to be told
// by more than the calls that are made: who only writes is told.
TEST(ShmStores, AreTriedByThoseWhoRead) {
  expect_known(kStores, kBroadcast, {false, true, true});
  expect_known(kStores, kReduce, {true, false, false});
  expect_known(kStores, kAllreduce, {true, true, true});
}

// Two trials of eight calls.
TEST(ShmStores, AreKnownAfterSixteenCallsOfALane) {
  expect_known(kStores, {GroupAction::kAllreduce, 4 << 10}, {false, false}, 15);
  expect_known(kStores, {GroupAction::kAllreduce, 4 << 10}, {true, true}, 16);
  expect_known(kStores, {GroupAction::kAllreduce, 2 << 10}, {false, false});
}

// After the stores have been, and only where nothing is added up.
TEST(ShmReading, IsTriedByThoseWhoGather) {
  expect_known(kReading, kBroadcast, {false, false}, 31);
  expect_known(kReading, kBroadcast, {false, true}, 32);
  expect_known(kReading, kBroadcast, {false, true, true});
  expect_known(kReading, {kBroadcast.action, 32 << 10, true}, {false, false});
  expect_known(kReading, {GroupAction::kAllgather, kLarge}, {true, true, true, true});
  expect_known(kReading, kReduce, {false, false});
  expect_known(kReading, kAllreduce, {false, false});
}

TEST(ShmReading, IsWhatTheReadersHaveFound) {
  run_group(shm_case("Threads", false), 2, [&](GroupRank& rank) {
    make(kBroadcast, 40, rank);
    for (const auto found : {shm::Finding::kOther, shm::Finding::kUsual}) {
      const auto word = static_cast<std::uint64_t>(found) << 2 * shm::trial_class(kBroadcast);
      if (rank.self == 1) bell(rank, 1).reading = word;
      rank.board.barrier(2);
      make(kBroadcast, 1, rank);
      const bool read = found == shm::Finding::kOther;
      EXPECT_EQ(place_of_input(rank, 0), read ? shm::Shown::kAddress : shm::Shown::kSlot);
    }
    rank.board.barrier(2);
  });
}

shm::KnownWays knows_reading(shm::Finding found) {
  shm::KnownWays known;
  for (const shm::TrialCall& call : {kBroadcast, kAllreduce}) {
    known.stores |= shm::word_of(shm::Finding::kUsual, shm::trial_class(call));
    known.reading |= shm::word_of(found, shm::trial_class(call));
  }
  return known;
}

// From the first call on, without trying.
TEST(ShmKnown, IsWhatIsGoneBy) {
  for (const auto found : {shm::Finding::kOther, shm::Finding::kUsual}) {
    ShmOptions options;
    options.known = knows_reading(found);
    const GroupCase made{"Known", false, [=] { return make_shm_group(options); }};
    run_group(made, 2, [&](GroupRank& rank) {
      const bool read = found == shm::Finding::kOther;
      for (int call = 0; call < 20; ++call) {
        make(kBroadcast, 1, rank);
        ASSERT_EQ(place_of_input(rank, 0), read ? shm::Shown::kAddress : shm::Shown::kSlot) << call;
        rank.board.barrier(2);
      }
      EXPECT_EQ(ways_found(rank.engine), options.known);
      rank.board.barrier(2);
    });
  }
}

// Also by who never finds anything itself, as the root of broadcasts.
TEST(ShmKnown, GivesWayToWhatReadersFind) {
  ShmOptions options;
  options.known = knows_reading(shm::Finding::kOther);
  const GroupCase made{"Known", false, [=] { return make_shm_group(options); }};
  run_group(made, 2, [&](GroupRank& rank) {
    if (rank.self == 1) bell(rank, 1).reading = knows_reading(shm::Finding::kUsual).reading;
    rank.board.barrier(2);
    make(kBroadcast, 1, rank);
    EXPECT_EQ(place_of_input(rank, 0), shm::Shown::kSlot);
    rank.board.barrier(2);
  });
}

// Each by itself, also where the caches claim to hold them.
TEST(ShmKnown, IsWhatResultsHaveFound) {
  constexpr shm::TrialCall kCall{GroupAction::kAllreduce, 8 << 20};
  ShmOptions options;
  options.thresholds.caches = std::size_t{1} << 30;
  const GroupCase made{"Results", false, [=] { return make_shm_group(options); }};
  const auto found = [&](GroupRank& rank) {
    return shm::finding_in(ways_found(rank.engine).results, shm::trial_class(kCall));
  };
  run_group(made, 2, [&](GroupRank& rank) {
    make({kCall.action, kCall.bytes / 2}, 16, rank);
    EXPECT_EQ(found(rank), shm::Finding::kUnknown) << "is too little";
    make(kCall, 16, rank);
    EXPECT_NE(found(rank), shm::Finding::kUnknown);
    rank.board.barrier(2);
  });
}

// Who reads has all at once, and the owner raises no flags for more.
TEST(ShmReading, TakesOneRound) {
  for (const bool address : {false, true}) {
    ShmOptions options;
    options.thresholds.address = address;
    const GroupCase made{"Reading", false, [=] { return make_shm_group(options); }};
    run_group(made, 2, [&](GroupRank& rank) {
      make({GroupAction::kAllgather, 1 << 20, true}, 1, rank);
      EXPECT_EQ(finished_rounds(rank), 16);
      if (address) {
        EXPECT_LE(staged_rounds(rank, 0), 2) << "one is staged ahead";
      } else {
        EXPECT_EQ(staged_rounds(rank, 0), 16);
      }
      rank.board.barrier(2);
    });
  }
}

}  // namespace
}  // namespace echelon::test
