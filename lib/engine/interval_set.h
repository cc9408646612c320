// SPDX-License-Identifier: Apache-2.0
// A set of units as disjoint, sorted slices.
#pragma once

#include <vector>

#include "lib/schedule/schedule.h"

namespace echelon {

class IntervalSet {
 public:
  void add(Slice s);
  bool touches(Slice s) const;
  std::vector<Slice> missing(Slice s) const;  // the parts of `s` that are not in the set

 private:
  std::vector<Slice> slices_;
};

}  // namespace echelon
