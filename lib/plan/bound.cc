// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "lib/plan/crowd.h"
#include "lib/plan/model.h"

namespace echelon {
namespace {

const char* children_of(TierKind kind) {
  switch (kind) {
    case TierKind::kHost:
      return "ranks of a host";
    case TierKind::kDomain:
      return "ranks of a domain";
    case TierKind::kRack:
      return "hosts of a rack";
    default:
      return "parts of the cluster";
  }
}

}  // namespace

// Information: for every byte of a result that depends on others, at least one has to come in, and
// for every byte that others' results depend on at least one has to go out, at every child of a
// tier; in an allreduce all children together have to send each byte to one place and from there
// back to the others. And some byte has to go from one child to another.
Bound lower_bound(const Shape& shape, ech_collective collective, double bytes) {
  Bound bound{0, "nothing to exchange"};
  for (const TierShape& tier : shape.tiers) {
    const double least =
        is_crowded_memory(shape, tier) ? by_few(shape, 1, tier.children - 1, tier.children) : 1;
    const double each = is_blockwise(collective) ? tier.block_time : least / tier.slowest_child;
    const double sum =
        collective == ECH_ALLREDUCE ? 2 * (tier.sharing - 1.0) / tier.all_children : 0;
    const double transfer = bytes * std::max(each, sum);
    const double hop = tier.link.latency;
    const std::string where = fmt::format("{} {}", tier.children, children_of(tier.kind));
    if (transfer > bound.seconds)
      bound = {transfer,
               fmt::format("bandwidth between the {}: {} at {:.4g} MB/s", where,
                           bytes_text(static_cast<std::size_t>(transfer * tier.slowest_child)),
                           tier.slowest_child / 1e6)};
    if (hop > bound.seconds)
      bound = {hop, fmt::format("latency between the {}: {:.{}f} us", where, hop * 1e6,
                                hop < 1e-4 ? 2 : 0)};
  }
  return bound;
}

}  // namespace echelon
