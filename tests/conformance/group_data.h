// SPDX-License-Identifier: Apache-2.0
// Calls with known results: inputs are small integers, so every type and order gives them exactly.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/conformance/group_ranks.h"
#include "transports/group.h"

namespace echelon::test {

using Bytes = std::vector<std::byte>;

// A call as all members see it.
struct Call {
  GroupAction action = GroupAction::kAllreduce;
  ech_dtype dtype = ECH_FLOAT32;
  ech_op op = ECH_SUM;
  bool in_place = false;
  std::vector<GroupPart> parts;
};

// `count` elements in one part per owner.
std::vector<GroupPart> even_parts(int owners, std::size_t count, ech_dtype dtype);

// Several parts per owner in no order, of many sizes, with gaps, at other offsets in the output
// than in the input when `moved`. Of several members, 0 owns nothing.
std::vector<GroupPart> uneven_parts(const GroupRank& rank, ech_dtype dtype, bool moved);

// One member's memory and expectation for a call.
class Trial {
 public:
  Trial(Call call, const GroupRank& rank);

  GroupWork work() const;

  // Once the call is done: takes the output away and overwrites all memory of the call at once,
  // which no other member may read any more. Then compares.
  void expect_correct();

  const Bytes& result() const { return result_; }

 private:
  Bytes inputs_of(int member) const;  // one period
  Bytes reduced() const;              // one period
  Bytes expected() const;
  bool gets(const GroupPart& part) const;

  const Call call_;
  const int self_;
  const int size_;
  Bytes input_;  // what it was
  std::size_t out_bytes_;
  Memory in_, out_;
  Bytes result_;
};

}  // namespace echelon::test
