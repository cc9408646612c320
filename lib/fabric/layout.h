// SPDX-License-Identifier: Apache-2.0
// The ranks placed on the fabric: for every tier, its groups and what connects them. Plain data;
// this is all that planning knows of the machines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/link.h"
#include "lib/schedule/schedule.h"

namespace echelon {

// A domain: hosts whose GPUs reach each other by NVLink. There is one only in layouts of GPUs, in
// the place of the tiers below it.
enum class TierKind { kSocket, kHost, kDomain, kRack, kCluster };

std::string_view name(TierKind kind);  // "socket", ...
std::optional<TierKind> parse_tier_kind(std::string_view text);

// Whether one engine serves a whole group of such a tier; plans then see single ranks below it.
inline bool is_served_as_one(TierKind kind) {
  return kind == TierKind::kHost || kind == TierKind::kDomain;
}

// One group of a tier. Its children are the groups of the tier below (single ranks below the
// first tier) that it consists of, in rank order.
struct TierGroup {
  Group ranks;                  // ascending
  std::vector<Group> children;  // disjoint, cover `ranks`, ordered by their first rank
  Link link;                    // between ranks of different children, one stream
  // What each child has to reach the others, one direction, bytes/s: all NICs of a host together,
  // the uplink of a rack. 0: no limit beyond the link's.
  std::vector<double> child_bandwidth;
  Source child_source = Source::kDefault;  // the least trusted source of child_bandwidth
  // Of that, what one rank has at most: the fastest NIC of the host where that is slowest. 0: all.
  double one_nic = 0;
  // What devices said of children for which child_bandwidth is more, since more has passed: there
  // processors are what limits, and less is no fault of the link. 0: none are.
  double disproved = 0;
};

struct Tier {
  TierKind kind;
  std::vector<TierGroup> groups;  // disjoint, cover all ranks, ordered by their first rank
};

// Invariants (checked by validate()):
//  - tiers go from the fastest to the slowest; the last one has one group: all ranks
//  - every group is a union of groups of the tier below
//  - no tier repeats the groups of the one below; a communicator of one rank has no tiers
struct Layout {
  int size = 0;
  std::vector<Tier> tiers;
  std::vector<int> host_of_rank;        // host index, hosts numbered by their first rank
  std::vector<std::string> host_names;  // by host index
  std::vector<std::string> warnings;    // what was assumed for lack of knowledge
  // CPUs that a rank has, at most 1, where they are fewest. Hosts on one machine, such as
  // containers, share them.
  double cpus_per_rank = 1;
  // Between the memory of a rank and that which its messages are sent from and received into, one
  // direction; nothing: it is the same.
  std::optional<Link> staging;
  // A call that joins all ranks over several groups of the first tier, which only some media have
  // (NCCL): its latency. Nothing: there is none, `no_joint_call` says why, if anybody may ask.
  std::optional<Link> joint_call;
  std::string no_joint_call;

  int host_count() const { return static_cast<int>(host_names.size()); }
  std::vector<int> ranks_of_host(int host) const;
  const Tier* tier(TierKind kind) const;  // nullptr when there is none
};

// "" or what is wrong, in one line.
std::string validate(const Layout& layout);

// Replaces the numbers of a tier by measured ones, except where the fabric file stated them; 0 is
// no number. What devices are said to reach together shrinks in proportion when the link proved
// slower, and grows to what one stream of the first two children of a group has reached.
void apply_measured(Layout& layout, TierKind tier, const Link& measured);

}  // namespace echelon
