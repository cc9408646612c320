// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace echelon {
namespace {

// What one phase costs the busiest child of its tier, in buffers.
struct PhaseCost {
  int rounds = 0;
  int messages = 0;  // sent by the busiest rank
  double sent = 0;
  double reduced = 0;  // by one rank, in the buffers that its rail has
};

int log2_up(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

bool goes_up(ech_collective c) {
  return c == ECH_ALLREDUCE || c == ECH_REDUCE_SCATTER || c == ECH_REDUCE;
}
bool goes_down(ech_collective c) {
  return c == ECH_ALLREDUCE || c == ECH_ALLGATHER || c == ECH_BROADCAST;
}

// One owner of everything: broadcast and reduce.
PhaseCost rooted(Algorithm algorithm, int n, bool reduces) {
  switch (algorithm) {
    case Algorithm::kNative:
      return {1, 0, reduces ? n - 1.0 : 1.0, 0};
    case Algorithm::kRing:
      return {n - 1, 1, 1, reduces ? 1.0 : 0};
    case Algorithm::kDirect:
      return {1, n - 1, n - 1.0, reduces ? n - 1.0 : 0};
    default:
      return {log2_up(n), log2_up(n), 1.0 * log2_up(n), reduces ? log2_up(n) : 0.0};
  }
}

PhaseCost shared(Algorithm algorithm, GroupAction action, int n) {
  if (algorithm == Algorithm::kNative) {
    const double part = (n - 1.0) / n;
    return {1, 0, action == GroupAction::kAllreduce ? 2 * part : part, 0};
  }
  const Cost c = cost(algorithm, action, n);
  const bool to_all = algorithm == Algorithm::kDirect || algorithm == Algorithm::kOneShot;
  return {c.rounds, to_all ? c.rounds * (n - 1) : c.rounds, c.sent, c.reduced};
}

class Model {
 public:
  Model(const Shape& shape, const Recipe& recipe, ech_collective collective, double segment)
      : shape_(shape), recipe_(recipe), collective_(collective), segment_(segment) {
    busy_.assign(shape.tiers.size(), 0);
    load_.assign(shape.tiers.size(), 0);
  }

  Prediction run(double bytes) {
    if (recipe_.algorithms.size() < shape_.tiers.size()) {
      add_flat();
    } else {
      add_tiers();
    }
    const double segments = std::max(1.0, std::ceil(bytes / segment_));
    const auto top = std::max_element(busy_.begin(), busy_.end());
    const double limit = std::max({*top, processor_, fill_ / kPipelineDepth});
    Prediction p;
    p.rounds = rounds_;
    p.latency = latency_;
    p.seconds = fill_ + (segments - 1) * limit;
    const std::size_t tier = top - busy_.begin();
    const bool by_links = *top >= processor_;
    p.busiest = by_links ? resource(tier) : "the processors";
    p.busiest_load = by_links ? load_[tier] * segments : 0;
    return p;
  }

 private:
  bool leader() const {
    const bool rooted_op = collective_ == ECH_BROADCAST || collective_ == ECH_REDUCE;
    return recipe_.ownership == Ownership::kLeader && (collective_ == ECH_ALLREDUCE || rooted_op);
  }

  std::string resource(std::size_t t) const {
    if (t == 0 && shape_.tiers[0].kind == TierKind::kHost) return "the memory of a host";
    const bool of_racks = t > 0 && shape_.tiers[t - 1].kind == TierKind::kRack;
    return of_racks ? "the uplink of a rack" : "the network of a host";
  }

  // A tree's worth of rounds on one tier, in both directions as the collective needs.
  void add_tiers() {
    const std::size_t last = shape_.tiers.size() - 1;
    for (std::size_t t = 0; t <= last; ++t) {
      const int n = shape_.tiers[t].children;
      const Algorithm a = recipe_.algorithms[t];
      if (t == last && collective_ == ECH_ALLREDUCE) {
        add(t, shared(a, GroupAction::kAllreduce, n));
        continue;
      }
      const bool one_owner = leader() || (t == last && collective_ != ECH_REDUCE_SCATTER &&
                                          collective_ != ECH_ALLGATHER);
      if (goes_up(collective_))
        add(t, one_owner ? rooted(a, n, true) : shared(a, GroupAction::kReduceScatter, n));
      if (goes_down(collective_))
        add(t, one_owner ? rooted(a, n, false) : shared(a, GroupAction::kAllgather, n));
    }
  }

  // `cost.sent` buffers leave each child of tier t, over all of its rails.
  void add(std::size_t t, const PhaseCost& cost) {
    const TierShape& tier = shape_.tiers[t];
    const int rails = leader() ? 1 : tier.rails;
    const double bandwidth =
        rails == 1 ? std::min(tier.slowest_child, tier.link.bytes_per_second) : tier.slowest_child;
    const double added = cost.reduced * segment_ / rails / shape_.reduce_speed;
    const double wait = waiting(cost, tier.link.latency, rails);
    const double move = cost.sent * segment_ / bandwidth;
    rounds_ += cost.rounds;
    latency_ += wait;
    fill_ += wait + move + added;
    processor_ += 2 * cost.messages * shape_.message_overhead + added;
    occupy(t, cost.sent);
  }

  // The latency of a round holds one message's overhead; further ones come on top, and those of
  // the other ranks that share the host's way out.
  double waiting(const PhaseCost& cost, double latency, int rails) const {
    const int further = std::max(0, cost.messages - cost.rounds);
    return cost.rounds * latency +
           (2 * further + (rails - 1) * cost.messages) * shape_.message_overhead;
  }

  // What crosses tier t also passes the links of the children below, each its share.
  void occupy(std::size_t t, double sent) {
    double share = sent;
    for (std::size_t u = t + 1; u-- > 0;) {
      const bool network = u == t || u > 0 || shape_.tiers[0].kind != TierKind::kHost;
      if (!network) break;
      busy_[u] += share * segment_ / shape_.tiers[u].slowest_child;
      load_[u] += share * segment_;
      if (u > 0) share /= shape_.tiers[u - 1].children;
    }
  }

  // One algorithm over all ranks, blind to the tiers: what leaves a child is what its ranks send,
  // for a ring in rank order only over the edges that cross.
  void add_flat() {
    const TierShape& top = shape_.tiers.back();
    const PhaseCost c = flat_cost();
    const bool ring = recipe_.algorithms[0] == Algorithm::kRing;
    const double added = c.reduced * segment_ / shape_.reduce_speed;
    rounds_ = c.rounds;
    latency_ = waiting(c, top.link.latency, ring ? top.crossing : top.rails);
    double slowest = 0;
    for (std::size_t t = 0; t < shape_.tiers.size(); ++t) {
      const TierShape& tier = shape_.tiers[t];
      const int senders = ring ? tier.crossing : tier.rails;
      load_[t] = senders * c.sent * segment_;
      busy_[t] = load_[t] / tier.slowest_child;
      slowest = std::max(slowest, busy_[t]);
    }
    processor_ = 2 * c.messages * shape_.message_overhead + added;
    fill_ = latency_ + slowest + added;
  }

  PhaseCost flat_cost() const {
    const Algorithm a = recipe_.algorithms[0];
    const int n = shape_.size;
    switch (collective_) {
      case ECH_REDUCE_SCATTER:
        return shared(a, GroupAction::kReduceScatter, n);
      case ECH_ALLGATHER:
        return shared(a, GroupAction::kAllgather, n);
      case ECH_BROADCAST:
      case ECH_REDUCE:
        return rooted(a, n, collective_ == ECH_REDUCE);
      default:
        return shared(a, GroupAction::kAllreduce, n);
    }
  }

  const Shape& shape_;
  const Recipe& recipe_;
  const ech_collective collective_;
  const double segment_;
  std::vector<double> busy_;  // s per segment, by tier
  std::vector<double> load_;  // bytes per segment out of the busiest child, by tier
  double processor_ = 0, fill_ = 0, latency_ = 0;
  int rounds_ = 0;
};

}  // namespace

Prediction predict(const Shape& shape, const Recipe& recipe, ech_collective collective,
                   double bytes) {
  if (shape.tiers.empty()) return {0, 0, 0, "nothing", 0};
  const double whole = std::max(bytes, 1.0);
  const double segment = recipe.segment == 0 ? whole : std::min<double>(recipe.segment, whole);
  return Model(shape, recipe, collective, segment).run(whole);
}

// Information: every child of a tier needs at least one byte in for every byte that depends on
// others, and all children of a group together at least (k-1) x bytes each way that the
// collective goes. And some byte has to go from one child to another.
Bound lower_bound(const Shape& shape, ech_collective collective, double bytes) {
  Bound bound{0, "nothing to exchange"};
  const int ways = collective == ECH_ALLREDUCE ? 2 : 1;
  for (const TierShape& tier : shape.tiers) {
    const int k = tier.children;
    const bool blocks = collective == ECH_REDUCE_SCATTER || collective == ECH_ALLGATHER;
    const double each = blocks ? bytes * (k - 1) / k : bytes;
    const double sum =
        collective == ECH_ALLREDUCE ? ways * (k - 1.0) * bytes / tier.all_children : 0;
    const double transfer = std::max(each / tier.slowest_child, sum);
    const double hop = tier.link.latency;
    const std::string where = fmt::format("{} {}", k,
                                          tier.kind == TierKind::kHost   ? "ranks of a host"
                                          : tier.kind == TierKind::kRack ? "hosts of a rack"
                                                                         : "parts of the cluster");
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
