// SPDX-License-Identifier: Apache-2.0
// The cost model: from the layout's links to seconds, for a recipe, and the lower bound that no
// recipe can beat. Everything is arithmetic on Shape; docs/plans.md derives the formulas.
#pragma once

#include <string>
#include <vector>

#include "lib/base/link.h"
#include "lib/fabric/layout.h"
#include "lib/plan/recipe.h"

namespace echelon {

inline constexpr int kPipelineDepth = 8;  // segments under way at once

// What planning sees of one tier: its most expensive group.
struct TierShape {
  TierKind kind = TierKind::kHost;
  std::vector<Group> groups;
  int children = 1;          // of the largest group
  int rails = 1;             // ranks of the smallest child: streams that a child can keep busy
  Link link;                 // one stream
  double slowest_child = 0;  // bytes/s, one direction, of the slowest child
  double all_children = 0;   // bytes/s, sum over the children of one group
  int crossing = 1;          // ring edges in rank order that leave the busiest child
};

// The tiers that plans are made over. The socket tier is not among them: the shared-memory engine
// serves a host as one group.
struct Shape {
  int size = 1;
  bool native = false;   // tier 0 is a host with a group engine
  bool messages = true;  // ranks can send to each other; else only native can do anything
  std::vector<TierShape> tiers;
  double reduce_speed = 8e9;       // bytes/s that one rank adds
  double message_overhead = 4e-6;  // s of processor time per message and end, over sockets
};

Shape make_shape(const Layout& layout, bool native);

struct Prediction {
  double seconds = 0;
  int rounds = 0;           // messages or hand-overs one after the other, for one segment
  double latency = 0;       // s of it that does not depend on the size
  std::string busiest;      // the resource that limits: "network of a host", ...
  double busiest_load = 0;  // bytes that pass it
};

// `bytes` is the whole vector (for reduce_scatter and allgather: all blocks). recipe.segment 0
// counts as one segment.
Prediction predict(const Shape& shape, const Recipe& recipe, ech_collective collective,
                   double bytes);

struct Bound {
  double seconds = 0;
  std::string reason;
};

// From the bytes that must pass each tier's links and the rounds that information needs.
Bound lower_bound(const Shape& shape, ech_collective collective, double bytes);

}  // namespace echelon
