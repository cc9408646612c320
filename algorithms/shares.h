// SPDX-License-Identifier: Apache-2.0
// Who owns what of a buffer within a group: the set algebra that the algorithms are written in.
#pragma once

#include <initializer_list>
#include <vector>

#include "lib/schedule/schedule.h"

namespace echelon {

// Disjoint, ordered, none empty.
using Slices = std::vector<Slice>;

// Shares[i]: what member i of the group owns.
using Shares = std::vector<Slices>;

// `slices`, laid end to end, in n nearly equal parts, part i for member i.
Shares divide(const Slices& slices, int n);

// `whole` in n nearly equal parts, part i for member i.
Shares even_shares(Slice whole, int n);

// All of it for member `owner` of n.
Shares all_to(int owner, const Slices& slices, int n);

// The same units in order and in as few slices as possible.
Slices merged(Slices slices);

// What shares [begin, end) own together.
Slices united(const Shares& shares, int begin, int end);
Slices united(const Shares& shares);

// The indices in `g` from which the schedule's viewer can be reached by one of `distances`; all
// of them when everyone views. Keeps the work proportional to what the viewer sees.
std::vector<int> seen_from(const Schedule& out, const Group& g,
                           std::initializer_list<int> distances);

}  // namespace echelon
