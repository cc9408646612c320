// SPDX-License-Identifier: Apache-2.0
// Every small damage to a correct schedule must be noticed.
#include <gtest/gtest.h>

#include <functional>

#include "lib/schedule/verify.h"
#include "tests/unit/schedule/shapes.h"

namespace echelon {
namespace {

using Mutation = std::function<void(Schedule& out, const Transfer& t)>;

// The schedule with transfer `victim` replaced by what `mutation` makes of it.
Schedule mutant(const Schedule& original, std::size_t victim, const Mutation& mutation) {
  Schedule out(original.units());
  for (std::size_t i = 0; i < original.transfers().size(); ++i) {
    const Transfer& t = original.transfers()[i];
    i == victim ? mutation(out, t) : out.add(t);
  }
  for (const GroupCall& call : original.calls()) out.add(call);
  return out;
}

void expect_killed(const Composition& what, const char* title, const Mutation& mutation) {
  const Schedule original = compose(what);
  ASSERT_EQ(verify(original, what.collective, what.size, what.root), "");
  for (std::size_t i = 0; i < original.transfers().size(); ++i)
    EXPECT_NE(verify(mutant(original, i, mutation), what.collective, what.size, what.root), "")
        << title << " transfer " << i << " of " << text(what);
}

std::vector<Composition> victims() {
  std::vector<Composition> all;
  for (const Algorithm a : kAllAlgorithms)
    for (const int n : {3, 4, 7})
      if (a != Algorithm::kNative) all.push_back(flat(ECH_ALLREDUCE, n, a));
  for (const Algorithm a : {Algorithm::kRing, Algorithm::kBinomial, Algorithm::kDirect})
    for (const ech_collective collective :
         {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER, ECH_BROADCAST, ECH_REDUCE})
      all.push_back(composition(collective, tiers({{3, 1, 2}, {3}}), {Algorithm::kNative, a}));
  return all;
}

TEST(Mutants, DroppedTransfer) {
  for (const Composition& what : victims())
    expect_killed(what, "dropped", [](Schedule&, const Transfer&) {});
}

// An addition done twice counts twice; a copy done twice is written twice.
TEST(Mutants, DuplicatedTransfer) {
  for (const Composition& what : victims())
    expect_killed(what, "duplicated", [](Schedule& out, const Transfer& t) {
      out.add(t);
      out.add(t);
    });
}

TEST(Mutants, LostFirstHalf) {
  for (const Composition& what : victims())
    expect_killed(what, "cut", [](Schedule& out, Transfer t) {
      t.slice.begin += (t.slice.size() + 1) / 2;
      out.add(t);
    });
}

TEST(Mutants, WrongSlice) {
  for (const Composition& what : victims()) {
    const Slice whole = compose(what).whole();
    expect_killed(what, "shifted", [whole](Schedule& out, Transfer t) {
      const Unit size = t.slice.size();
      if (t.slice.end + size <= whole.end) {
        out.add({t.step, t.from, t.to, {t.slice.begin + size, t.slice.end + size}, t.action});
      } else if (t.slice.begin >= size) {
        out.add({t.step, t.from, t.to, {t.slice.begin - size, t.slice.end - size}, t.action});
      }
    });
  }
}

TEST(Mutants, SwappedAction) {
  for (const Composition& what : victims())
    expect_killed(what, "swapped", [](Schedule& out, Transfer t) {
      t.action = t.action == Action::kCopy ? Action::kReduce : Action::kCopy;
      out.add(t);
    });
}

TEST(Mutants, Reversed) {
  for (const Composition& what : victims())
    expect_killed(what, "reversed", [](Schedule& out, Transfer t) {
      std::swap(t.from, t.to);
      out.add(t);
    });
}

TEST(Mutants, DroppedGroupCall) {
  const Composition what =
      composition(ECH_ALLREDUCE, tiers({{3, 1, 2}, {3}}), {Algorithm::kNative, Algorithm::kRing});
  const Schedule original = compose(what);
  ASSERT_EQ(original.calls().size(), 4u);
  for (std::size_t victim = 0; victim < 4; ++victim) {
    Schedule out(original.units());
    for (const Transfer& t : original.transfers()) out.add(t);
    for (std::size_t i = 0; i < 4; ++i)
      if (i != victim) out.add(original.calls()[i]);
    EXPECT_NE(verify(out, ECH_ALLREDUCE, 6), "") << victim;
  }
}

}  // namespace
}  // namespace echelon
