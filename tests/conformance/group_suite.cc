// SPDX-License-Identifier: Apache-2.0
// Results: actions, types, operators, sizes, parts, lanes.
#include "tests/conformance/group_suite.h"

#include <cstring>
#include <deque>
#include <random>

#include "lib/base/dtype.h"
#include "tests/conformance/group_data.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

constexpr GroupAction kActions[] = {GroupAction::kReduceScatter, GroupAction::kAllgather,
                                    GroupAction::kAllreduce};
// More ranks than cores take turns, which takes long under a sanitizer.
constexpr int kMany = kSlowness > 1 ? 4 : 8;
constexpr int kSizes[] = {1, 2, 3, 5, kMany};

void run_call(GroupRank& rank, const Call& call, int lane = 0) {
  Trial trial(call, rank);
  rank.run(lane, trial.work());
  trial.expect_correct();
}

TEST_P(GroupSuite, EveryKindAndSize) {
  const std::size_t largest = GetParam().largest / sizeof(float);
  const std::size_t counts[] = {0, 1, 2, 14, 15, 64, 65, 1008, 1009, 50003, largest};
  for (int n : kSizes)
    run_group(GetParam(), n, [&](GroupRank& rank) {
      for (std::size_t count : counts) {
        if (count == largest && n != 2 && n != 5) continue;  // they take long
        for (GroupAction action : kActions)
          for (bool in_place : {false, true})
            run_call(rank, {action, ECH_FLOAT32, ECH_SUM, in_place,
                            even_parts(rank.size, count, ECH_FLOAT32)});
      }
    });
}

TEST_P(GroupSuite, EveryTypeAndOperator) {
  for (int n : {2, 3, kMany})
    run_group(GetParam(), n, [&](GroupRank& rank) {
      for (ech_dtype dtype : kAllTypes)
        for (ech_op op : kAllOps)
          for (std::size_t count : {1, 65, 5000})
            for (GroupAction action : {GroupAction::kReduceScatter, GroupAction::kAllreduce})
              run_call(rank, {action, dtype, op, false, even_parts(rank.size, count, dtype)});
    });
}

TEST_P(GroupSuite, UnevenParts) {
  for (int n : kSizes)
    run_group(GetParam(), n, [&](GroupRank& rank) {
      for (GroupAction action : kActions)
        for (ech_dtype dtype : {ECH_UINT8, ECH_INT32, ECH_FLOAT64}) {
          run_call(rank, {action, dtype, ECH_SUM, false, uneven_parts(rank, dtype, true)});
          run_call(rank, {action, dtype, ECH_SUM, false, uneven_parts(rank, dtype, false)});
          run_call(rank, {action, dtype, ECH_SUM, true, uneven_parts(rank, dtype, false)});
        }
    });
}

// What may fit into a single cache line, or is short, in several parts of each owner, or of all but
// the first.
TEST_P(GroupSuite, FewBytesInManyParts) {
  for (int n : {2, 3, 5})
    run_group(GetParam(), n, [&](GroupRank& rank) {
      for (std::size_t bytes : {2, 4, 6, 10, 22, 300, 1006, 1010})
        for (int first : {0, 1})
          for (GroupAction action : kActions) {
            std::vector<GroupPart> parts;
            const std::size_t apart = bytes + 2;
            for (std::size_t i = 0; i < 4; ++i) {
              const int owner = first + static_cast<int>(i) % (rank.size - first);
              parts.push_back({i * apart, (4 - i) * apart, bytes, owner});
            }
            run_call(rank, {action, ECH_FLOAT16, ECH_SUM, false, parts});
          }
    });
}

TEST_P(GroupSuite, OneOwnerHasEverything) {
  for (int n : {2, 5})
    run_group(GetParam(), n, [&](GroupRank& rank) {
      for (int turn = 0; turn < 20; ++turn)
        for (GroupAction action : kActions) {
          const std::size_t bytes = turn % 4 == 0 ? rank.made.largest / 4 : 4 * turn;
          run_call(rank, {action, ECH_INT32, ECH_MAX, false, {{0, 8, bytes, turn % rank.size}}});
        }
    });
}

// All lanes at once, each with something else, begun in another order by every member.
TEST_P(GroupSuite, LanesAreIndependent) {
  for (int n : {2, 4})
    run_group(GetParam(), n, [&](GroupRank& rank) {
      const int lanes = rank.engine.lanes();
      for (int turn = 0; turn < 6; ++turn) {
        std::deque<Call> calls;
        std::deque<Trial> trials;
        for (int l = 0; l < lanes; ++l) {
          const std::size_t count = std::size_t{1} << (l + turn) * 5 % 19;
          calls.push_back({kActions[(l + turn) % 3], ECH_FLOAT32, ECH_SUM, l % 2 == 0,
                           even_parts(rank.size, count, ECH_FLOAT32)});
          trials.emplace_back(calls.back(), rank);
        }
        for (int l = 0; l < lanes; ++l) {
          const int lane = (l + rank.self * 3) % lanes;
          GroupWork work = trials[lane].work();
          work.turn = rank.turn + lane;
          rank.engine.start(lane, work);
        }
        for (int l = 0; l < lanes; ++l) {
          const int lane = (l + rank.self) % lanes;
          rank.wait(lane);
          trials[lane].expect_correct();
        }
        rank.turn += lanes;
      }
    });
}

// Many small calls of mixed actions and sizes in a row, on two lanes.
TEST_P(GroupSuite, AThousandInARow) {
  for (int n : {2, 4})
    run_group(GetParam(), n, [&](GroupRank& rank) {
      std::mt19937 random(1);  // the same for all members
      for (int i = 0; i < 1000 / kSlowness; ++i) {
        const std::size_t count = random() % (i % 100 == 0 ? 60000 : 40);
        const GroupAction action = kActions[random() % 3];
        run_call(rank,
                 {action, ECH_INT32, ECH_SUM, i % 3 == 0, even_parts(rank.size, count, ECH_INT32)},
                 i % 2);
      }
    });
}

// Sums that depend on the order of addition: the same bits everywhere, in and out of place.
TEST_P(GroupSuite, SameBitsEverywhere) {
  for (int n : {3, kMany})
    run_group(GetParam(), n, [&](GroupRank& rank) {
      std::mt19937 random(rank.self);
      for (std::size_t count : {7, 3001, 200001}) {
        std::vector<float> data(count);
        for (float& v : data) v = std::ldexp(float(random()), int(random() % 40) - 60);
        std::vector<float> out = data;
        const GroupPart part{0, 0, count * sizeof(float), 0};
        const auto* input = reinterpret_cast<const std::byte*>(data.data());
        auto* output = reinterpret_cast<std::byte*>(out.data());
        rank.run(0, {GroupAction::kAllreduce, ECH_FLOAT32, ECH_SUM, input, output, {&part, 1}});
        std::uint64_t hash = 14695981039346656037u;
        for (std::size_t i = 0; i < part.bytes; ++i)
          hash = (hash ^ std::to_integer<std::uint64_t>(output[i])) * 1099511628211u;
        rank.board.number(rank.self) = hash;
        rank.board.barrier(rank.size);
        for (int m = 0; m < rank.size; ++m) EXPECT_EQ(rank.board.number(m), hash);
        rank.board.barrier(rank.size);
      }
    });
}

}  // namespace
}  // namespace echelon::test
