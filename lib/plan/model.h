// SPDX-License-Identifier: Apache-2.0
// The cost model: from the layout's links to seconds, for a recipe, and the lower bound that no
// recipe can beat. Everything is arithmetic on Shape; docs/plans.md derives the formulas.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/link.h"
#include "lib/base/pipeline.h"
#include "lib/fabric/layout.h"
#include "lib/plan/recipe.h"

namespace echelon {

// What planning sees of one tier: its most expensive group.
struct TierShape {
  TierKind kind = TierKind::kHost;
  std::vector<Group> groups;
  int children = 1;          // of the most expensive group
  int most_children = 1;     // of any group
  int rails = 1;             // ranks of the smallest child: streams that a child can keep busy
  int rails_of_rank = 1;     // that a rank of the smallest child serves, where parts are split
  Link link;                 // one stream
  double slowest_child = 0;  // bytes/s, one direction, of the slowest child
  double one_nic = std::numeric_limits<double>::infinity();  // of that, what one rank has at most
  Source child_source = Source::kDefault;  // the least trusted of those that it comes from
  int crossing = 1;                        // ring edges in rank order that leave the busiest child
  // Children that share the work of an allreduce, and the sum of their bytes/s: those of the group
  // in a host, of all groups on a network.
  int sharing = 1;
  double all_children = 0;
  // In a reduce_scatter, of the whole buffer: what a child keeps after this tier, least and most.
  // Its own blocks, and an even part of those that go on to other groups.
  double least_kept = 0, most_kept = 0;
  double largest_part = 1;  // of the group's blocks that one child owns
  // The least time of a child's link per byte of a reduce_scatter's buffer, s: what is for others
  // leaves it, and what is its own enters it.
  double block_time = 0;
};

// The tiers that plans are made over. The socket tier is not among them: the shared-memory engine
// serves a host as one group.
struct Shape {
  int size = 1;
  bool native = false;      // tier 0 is a host or a domain with a group engine
  bool messages = true;     // ranks can send to each other; else only native can do anything
  bool host_memory = true;  // buffers are in it, and so in caches; else in that of GPUs
  std::vector<TierShape> tiers;
  // Bytes/s of results that one rank adds, near the slow end of what reduce_bench measures: a sum
  // of two f32 reads and writes three bytes for each, 20 GB/s in memory and 66 GB/s in a cache.
  double reduce_speed = 8e9;
  double message_overhead = 4e-6;  // s of processor time per message and end, over sockets
  // Where ranks outnumber CPUs, s of processor time with both ends: of a message that these wait
  // for, and as much of every round, with what ranks give up to each other (bench/results,
  // "small calls"); of one among many, and of its bytes over sockets ("small segments and
  // leaders").
  double crowded_wait = 21e-6;
  double busy_message = 13e-6;  // over sockets only for what it is shorter than a piece
  double busy_byte = 0.8e-9;    // but for those that leave the caches: out_of_cache()
  double cpus_per_rank = 1;     // as in Layout
  std::optional<Link> staging;  // Layout::staging
  // A call over all ranks, by the recipe "native" alone: its latency, and the narrowest network
  // that it crosses. Nothing: there is none, and why.
  std::optional<Link> joint_call;
  std::string no_joint_call;
};

// Whether `recipe` is that call.
bool is_joint_call(const Shape& shape, const Recipe& recipe);

Shape make_shape(const Layout& layout, bool native);

// What plans take for the link of `child` to the rest of its group, bytes/s in one direction, when
// so many of its ranks use it at once.
double child_speed(const TierGroup& group, std::size_t child, int streams);

// Has plans take `speed`, which users of the link have measured, from now on.
void set_child_speed(TierGroup& group, std::size_t child, double speed);

// Whether every rank has blocks of its own.
inline bool is_blockwise(ech_collective c) { return c == ECH_REDUCE_SCATTER || c == ECH_ALLGATHER; }

struct Prediction {
  double seconds = 0;
  int rounds = 0;      // messages or hand-overs one after the other, for one segment
  double latency = 0;  // s of it that does not depend on the size
  // Of all ranks, for one segment, where what they take of shared CPUs is most of the latency.
  double messages = 0;
  double overhead = 0;      // of its busiest resource's time, what messages and calls cost a rank
  double message = 0;       // mean bytes of one, in the phase of the smallest; 0: there are none
  std::string busiest;      // the resource that limits: "network of a host", ...
  double busiest_load = 0;  // bytes that pass it
  // The network limits, processors are free for a fifth of the time or more, and a message takes
  // longer than a rank that sleeps needs to be woken. The whole operation keeps the network at work
  // for at least as long as its rounds take with a wake in each.
  bool waits_for_network = false;
  double message_time = 0;  // s that the network then takes for `message`
  // Segments at once: what keeps the busiest resource busy, and no more than stay in caches; one of
  // large operations within a host (under_way.h). All there may be of small operations, and where
  // ranks wait for the network: who wakes finds more to do.
  int under_way = kPipelineDepth;
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
