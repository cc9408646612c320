// SPDX-License-Identifier: Apache-2.0
// How to do a collective, in few words: which algorithm on which tier, who owns what between the
// tiers, and how large a segment is. The text form is what users write and read:
//
//   recipe    = ["leader:"] algorithm {"/" algorithm} ["@" size]
//   algorithm = native | ring | halving_doubling | recursive_doubling | double_tree | direct |
//               one_shot | binomial
//   size      = number ["KiB" | "MiB" | "GiB"]
//
// One algorithm: over all ranks at once, blind to the tiers. Otherwise one per tier of the
// layout, the innermost first. Without a size the cost model chooses it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/hierarchical.h"

namespace echelon {

struct Recipe {
  Ownership ownership = Ownership::kSplit;
  std::vector<Algorithm> algorithms;
  std::size_t segment = 0;  // bytes of the buffer that move as one; 0: not said

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

std::string to_text(const Recipe& recipe);

// Whether it does an allreduce by adding everything up in one phase and spreading it in the next: a
// rank that sends something to be copied has it from all.
bool adds_before_it_spreads(const Recipe& recipe);

// Whether, besides, a rank sends as much to each host that it sends to, so that the time in which
// several of them share its link can be divided among them.
bool tells_of_links(const Recipe& recipe);

inline constexpr std::size_t kLongestRecipe = 256;  // characters

// Throws ECH_ERR_INVALID that shows the grammar and where `text` departs from it.
Recipe parse_recipe(std::string_view text);

std::string bytes_text(std::size_t bytes);  // "64 B", "1 MiB", "1.5 MiB"

}  // namespace echelon
