// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/plan/crowd.h"
#include "lib/plan/phase.h"
#include "lib/plan/under_way.h"

namespace echelon {
namespace {

constexpr double kPiece = 128 << 10;  // bytes in which messages go over sockets, but with BBR

// How much longer the bytes of a segment take that leaves the caches before it is sent on: a tenth
// for each doubling of the segment times the ranks of a host, of which no more than four were
// measured: bench/results, "small segments and leaders" and "pieces of 130 KiB".
double out_of_cache(double segment, const TierShape& host) {
  const int ranks = is_served_as_one(host.kind) ? std::clamp(host.most_children, 2, 4) : 2;
  return 1 + 0.1 * std::clamp(std::log2(segment * ranks / (512 << 10)), 0.0, 2.0);
}

// Of ranks that wait for the network: for how much of the time processors are busy, at most, until
// when a sleeping one goes on once a message has come, s (an idle core takes half of that), and
// what that adds to each round.
constexpr double kBusy = 0.8, kWakeUp = 50e-6, kWoken = 20e-6;

class Model {
 public:
  Model(const Shape& shape, const Recipe& recipe, ech_collective collective, double segment)
      : shape_(shape), recipe_(recipe), collective_(collective), segment_(segment) {
    busy_.assign(shape.tiers.size(), 0);
    load_.assign(shape.tiers.size(), 0);
  }

  Prediction run(double bytes) {
    blocks_apart_ = is_blockwise(collective_) && segment_ < bytes;
    if (is_joint_call(shape_, recipe_)) {
      add_joint_call();
    } else if (recipe_.algorithms.size() < shape_.tiers.size()) {
      add_flat_ring();
    } else if (leader() && is_blockwise(collective_)) {
      add_blocks_by_leaders();
    } else {
      add_tiers();
    }
    const double segments = std::max(1.0, std::ceil(bytes / segment_));
    const auto top = std::max_element(busy_.begin(), busy_.end());
    const double busiest = std::max({*top, processor_, copying_});
    const double limit = std::max(busiest, fill_ / kPipelineDepth);
    Prediction p;
    p.rounds = rounds_;
    p.latency = latency_;
    p.messages = 2 * shared_ > latency_ ? messages_ : 0;
    p.overhead = overhead_ / limit;
    p.message = message_;
    p.seconds = fill_ + (segments - 1) * limit;
    const std::size_t tier = top - busy_.begin();
    const bool by_links = *top >= std::max(processor_, copying_);
    const bool by_copies = !by_links && copying_ >= processor_;
    p.busiest = by_links ? resource(tier) : by_copies ? "the PCIe of a GPU" : "the processors";
    p.busiest_load = by_links ? load_[tier] * segments : by_copies ? copied_ * segments : 0;
    p.waits_for_network =
        by_links && leaves_time(tier) && processor_ <= kBusy * limit && slept() <= *top * segments;
    if (!p.waits_for_network)
      p.under_way = segments_under_way(shape_, recipe_, {bytes, segment_, busiest, fill_});
    if (p.waits_for_network) p.message_time = message_ / speed(shape_.tiers[tier]);
    return p;
  }

 private:
  bool leader() const { return recipe_.ownership == Ownership::kLeader; }

  // Whether tier t is a network between hosts' memories where a message takes longer than a wake.
  bool leaves_time(std::size_t t) const {
    const bool network = t > 0 || !is_served_as_one(shape_.tiers[0].kind);
    const bool of_hosts = network && shape_.host_memory && !shape_.staging;
    return of_hosts && message_ >= kWakeUp * speed(shape_.tiers[t]);
  }

  double slept() const { return latency_ + rounds_ * kWoken; }  // latency where ranks sleep

  std::string resource(std::size_t t) const {
    const TierKind first = shape_.tiers[0].kind;
    if (t == 0 && first == TierKind::kHost) return "the memory of a host";
    if (t == 0 && first == TierKind::kDomain) return "the NVLinks of a domain";
    const bool of_racks = t > 0 && shape_.tiers[t - 1].kind == TierKind::kRack;
    if (of_racks) return "the uplink of a rack";
    return first == TierKind::kDomain ? "the network of a domain" : "the network of a host";
  }

  // One phase on each tier, or two, in the directions that the collective needs.
  void add_tiers() {
    const std::size_t last = shape_.tiers.size() - 1;
    for (std::size_t t = 0; t <= last; ++t) {
      const int n = shape_.tiers[t].children;
      const Algorithm a = recipe_.algorithms[t];
      if (t == last && collective_ == ECH_ALLREDUCE) {
        add(t, phase(a, GroupAction::kAllreduce, n, false));
        continue;
      }
      const bool one_owner = leader() || (t == last && !is_blockwise(collective_));
      if (goes_up(collective_))
        add(t, weighted(t, phase(a, GroupAction::kReduceScatter, n, one_owner)));
      if (goes_down(collective_))
        add(t, weighted(t, phase(a, GroupAction::kAllgather, n, one_owner)));
    }
  }

  // As compose() does it: algorithms/hierarchical.h.
  void add_blocks_by_leaders() {
    const std::size_t last = shape_.tiers.size() - 1;
    const GroupAction gather = GroupAction::kAllgather, reduce = GroupAction::kReduceScatter;
    const bool up = goes_up(collective_);
    for (std::size_t t = 0; t <= last; ++t) {
      const int n = shape_.tiers[t].children;
      const Algorithm a = recipe_.algorithms[t];
      const double own = own_part(shape_.tiers[t]);
      if (up && t < last) add(t, phase(a, reduce, n, true));
      if (!up || t == last) add(t, of_children(t, phase(a, up ? reduce : gather, n, false)));
      if (t < last) add(t, scaled(phase(a, gather, n, true), up ? own : 1 - own));
    }
  }

  // Of all blocks, those of the largest group's own ranks.
  double own_part(const TierShape& tier) const {
    return std::ranges::max(tier.groups, {}, &Group::size).size() * 1.0 / shape_.size;
  }

  // As weighted(), where a group's children own only the group's own blocks.
  Cost of_children(std::size_t t, Cost cost) const {
    const TierShape& tier = shape_.tiers[t];
    const double own = own_part(tier);
    const double least = std::max(0.0, (tier.least_kept - (1 - own) / tier.children) / own);
    const Algorithm a = recipe_.algorithms[t];
    return uneven(scaled(cost, own), unevenness(tier.children, a, least, tier.largest_part));
  }

  static Cost scaled(Cost cost, double factor) {
    cost.sent *= factor;
    cost.added *= factor;
    return uneven(cost, factor);
  }

  // All members together send and add as much as ever.
  static Cost uneven(Cost cost, double factor) {
    cost.moved *= factor;
    cost.reduced *= factor;
    cost.handled *= factor;
    return cost;
  }

  // With the shares that the children of tier t really have.
  Cost weighted(std::size_t t, Cost cost) const {
    if (!is_blockwise(collective_)) return cost;
    const TierShape& tier = shape_.tiers[t];
    const Algorithm a = recipe_.algorithms[t];
    return uneven(cost, unevenness(tier.children, a, tier.least_kept, tier.most_kept));
  }

  // `cost.moved` buffers leave, or enter, each child of tier t, over all of its rails.
  void add(std::size_t t, Cost cost) {
    const TierShape& tier = shape_.tiers[t];
    const int rails = leader() ? 1 : tier.rails;
    if (!leader()) cost.messages *= tier.rails_of_rank;
    const bool memory = is_crowded_memory(shape_, tier);
    if (memory) cost.moved = by_few(shape_, cost.moved, cost.sent, tier.children);
    const double bandwidth =
        rails == 1 ? std::min(tier.slowest_child, tier.link.bytes_per_second) : tier.slowest_child;
    const double added = cost.reduced * segment_ / rails / shape_.reduce_speed;
    const double groups = static_cast<double>(tier.groups.size()) * rails;
    const double in_all =
        std::max(cost.in_all * groups * (leader() ? 1 : tier.rails_of_rank),
                 blocks(cost, cost.sent * static_cast<double>(tier.groups.size())));
    cost.messages = std::max(cost.messages, static_cast<int>(blocks(cost, cost.moved / rails)));
    const double wait = wait_for(in_all, cost.rounds, waiting(cost, tier.link.latency, rails));
    const double sent = cost.sent * static_cast<double>(tier.groups.size()) * segment_;
    const double carry = of_cpus(work_of_bytes(tier, sent));
    const double own = own_work(tier, cost.handled * segment_ / rails);
    const double move =
        std::max({cost.moved * segment_ / bandwidth, occupy(t, cost.moved), carry, own});
    rounds_ += cost.rounds;
    latency_ += wait;
    fill_ += wait + move + added + stage(cost, rails);
    const double in_memory = memory ? cost.sent / tier.children * segment_ / bandwidth : 0;
    const double groups_added = cost.added * static_cast<double>(tier.groups.size()) * segment_;
    const double work = work_of_messages(tier, in_all, sent) + groups_added / shape_.reduce_speed;
    processor_ += std::max({2 * cost.messages * shape_.message_overhead + added, own + added,
                            of_cpus(work) + carry + in_memory});
    count(cost, tier.link.latency, rails);
  }

  // Messages that so many buffers take at least, where the blocks of a segment lie apart.
  double blocks(const Cost& cost, double buffers) const {
    return blocks_apart_ && cost.messages > 0 ? buffers * shape_.size : 0;
  }

  // The messages of a phase, and what they cost. A call of a group engine costs what its ranks take
  // to meet.
  void count(const Cost& cost, double latency, int rails) {
    if (cost.messages == 0) {
      overhead_ += cost.rounds * latency;
      return;
    }
    const double copies = shape_.staging ? 2 * cost.rounds * shape_.staging->latency : 0;
    overhead_ += 2 * cost.messages * shape_.message_overhead + copies;
    const double bytes = cost.moved * segment_ / rails / cost.messages;
    message_ = message_ == 0 ? bytes : std::min(message_, bytes);
  }

  // The time in which what a rank sends gets out of its GPU's memory and what it receives gets in,
  // one after the other for one segment. Those of others are under way on the network meanwhile,
  // and both directions at once.
  double stage(const Cost& cost, int rails) {
    if (!shape_.staging || cost.messages == 0) return 0;
    const double bytes = cost.moved * segment_ / rails;
    const double time = bytes / shape_.staging->bytes_per_second;
    copied_ += bytes;
    copying_ += time;
    latency_ += 2 * cost.rounds * shape_.staging->latency;
    return 2 * (time + cost.rounds * shape_.staging->latency);
  }

  // The latency of a round holds one message's overhead; further ones come on top, and those of
  // the other ranks that share the host's way out.
  double waiting(const Cost& cost, double latency, int rails) const {
    const int further = std::max(0, cost.messages - cost.rounds);
    return cost.rounds * latency +
           (2 * further + (rails - 1) * cost.messages) * shape_.message_overhead;
  }

  // The time until so many messages of all ranks are through, which takes `least` by itself.
  double wait_for(double messages, int rounds, double least) {
    const double waits = messages == 0 ? 0 : messages + rounds;
    const double shared = of_cpus(waits * shape_.crowded_wait);
    if (shared <= least) return least;
    messages_ += messages;
    shared_ += shared;
    return shared;
  }

  // Where ranks outnumber CPUs: how long these take for so many seconds of all ranks' work.
  double of_cpus(double work) const { return shape_.cpus_per_rank < 1 ? work / cpus() : 0; }
  double cpus() const { return shape_.cpus_per_rank * shape_.size; }

  double work_of_bytes(const TierShape& tier, double bytes) const {
    const double price = shape_.busy_byte * out_of_cache(segment_, shape_.tiers[0]);
    return tier.link.kind == LinkKind::kEthernet ? bytes * price : 0;
  }

  // Of messages among many others. A piece costs what its bytes do, and a message is one at least;
  // where messages are unequal, what the large ones have of pieces is taken for the small ones'.
  double work_of_messages(const TierShape& tier, double messages, double bytes) const {
    const double pieces = tier.link.kind == LinkKind::kEthernet ? bytes / kPiece : 0;
    return std::max(0.0, messages - pieces) * shape_.busy_message;
  }

  // Where ranks outnumber CPUs: how long its own CPU takes for a rank that handles so many bytes,
  // at one end each.
  double own_work(const TierShape& tier, double bytes) const {
    return shape_.cpus_per_rank < 1 ? work_of_bytes(tier, bytes) / 2 : 0;
  }

  // What crosses tier t also passes the links of the children below, each its share, or the
  // leader's all of it. The time that the slowest of them takes.
  double occupy(std::size_t t, double moved) {
    double share = moved, slowest = 0;
    for (std::size_t u = t + 1; u-- > 0;) {
      const bool network = u == t || u > 0 || !is_served_as_one(shape_.tiers[0].kind);
      if (!network) break;
      const double time = share * segment_ / speed(shape_.tiers[u]);
      busy_[u] += time;
      load_[u] += share * segment_;
      slowest = std::max(slowest, time);
      if (u > 0) share *= part_of_child(shape_.tiers[u - 1]);
    }
    return slowest;
  }

  double speed(const TierShape& tier) const {
    return leader() ? std::min(tier.slowest_child, tier.one_nic) : tier.slowest_child;
  }

  // Of what crosses the links of a group, how much passes those of its busiest child.
  double part_of_child(const TierShape& tier) const {
    if (leader()) return 1;
    return is_blockwise(collective_) ? tier.largest_part : 1.0 / tier.children;
  }

  // A ring over all ranks, blind to the tiers: what leaves a child is what its ranks send over the
  // edges that cross.
  void add_flat_ring() {
    const TierShape& top = shape_.tiers.back();
    const Cost c = flat_cost(shape_.size);
    const double added = c.reduced * segment_ / shape_.reduce_speed;
    rounds_ = c.rounds;
    latency_ = wait_for(c.in_all, c.rounds, waiting(c, top.link.latency, top.crossing));
    double slowest = 0;
    for (std::size_t t = 0; t < shape_.tiers.size(); ++t) {
      const TierShape& tier = shape_.tiers[t];
      load_[t] = tier.crossing * c.moved * segment_;
      busy_[t] = load_[t] / tier.slowest_child;
      slowest = std::max(slowest, busy_[t]);
    }
    const double sent = c.sent * segment_, across = sent * between_hosts();
    const double work =
        of_cpus(work_of_bytes(top, across) + c.added * segment_ / shape_.reduce_speed) +
        in_hosts(sent - across);
    const double own = own_work(top, c.handled * segment_) + added;
    processor_ = std::max({2 * c.messages * shape_.message_overhead + added, own,
                           of_cpus(work_of_messages(top, c.in_all, sent)) + work});
    count(c, top.link.latency, 1);
    const double wait = latency_;
    fill_ = wait + std::max(slowest + added, work) + stage(c, 1);
  }

  // The part of a ring's edges that leave hosts, if as many leave each as the busiest.
  double between_hosts() const {
    const std::size_t network = is_served_as_one(shape_.tiers[0].kind) ? 1 : 0;
    const std::size_t hosts = network == 1 ? shape_.tiers[0].groups.size() : shape_.size;
    return std::min(1.0, 1.0 * shape_.tiers[network].crossing * hosts / shape_.size);
  }

  // The time of processors for what ranks send inside their hosts, alike in all.
  double in_hosts(double bytes) const {
    const TierShape& host = shape_.tiers[0];
    if (!is_crowded_memory(shape_, host)) return 0;
    return bytes / shape_.size / host.slowest_child;
  }

  // One call of NCCL over all ranks, as if it moved no more than has to be, in both the hosts and
  // the network, and crossed that by trees. What passes a NIC passes the PCIe of a GPU, too.
  void add_joint_call() {
    const bool grouped = is_served_as_one(shape_.tiers[0].kind);
    const int parts = grouped ? static_cast<int>(shape_.tiers[0].groups.size()) : shape_.size;
    const int directions = std::max(1, int{goes_up(collective_)} + int{goes_down(collective_)});
    const int hops = directions * std::bit_width(static_cast<unsigned>(parts - 1));
    const double between = flat_cost(parts).moved * segment_;
    for (std::size_t t = 0; t < shape_.tiers.size(); ++t) {
      const auto children = t == 0 ? shape_.size : std::ssize(shape_.tiers[t - 1].groups);
      load_[t] = flat_cost(static_cast<int>(children)).moved * segment_;
      busy_[t] = load_[t] / shape_.tiers[t].slowest_child;
    }
    rounds_ = 1 + hops;
    latency_ = shape_.joint_call->latency + hops * shape_.tiers.back().link.latency;
    if (shape_.staging) {
      copied_ = between / (grouped ? shape_.tiers[1].rails : 1);
      copying_ = copied_ / shape_.staging->bytes_per_second;
    }
    fill_ = latency_ + std::max(copying_, *std::ranges::max_element(busy_));
  }

  Cost flat_cost(int n) const {
    const Algorithm a = recipe_.algorithms[0];
    switch (collective_) {
      case ECH_REDUCE_SCATTER:
        return phase(a, GroupAction::kReduceScatter, n, false);
      case ECH_ALLGATHER:
        return phase(a, GroupAction::kAllgather, n, false);
      case ECH_REDUCE:
        return phase(a, GroupAction::kReduceScatter, n, true);
      case ECH_BROADCAST:
        return phase(a, GroupAction::kAllgather, n, true);
      default:
        return phase(a, GroupAction::kAllreduce, n, false);
    }
  }

  const Shape& shape_;
  const Recipe& recipe_;
  const ech_collective collective_;
  const double segment_;
  std::vector<double> busy_;  // s per segment, by tier
  std::vector<double> load_;  // bytes per segment out of the busiest child, by tier
  double processor_ = 0, fill_ = 0, latency_ = 0;
  bool blocks_apart_ = false;
  double messages_ = 0, shared_ = 0;  // that wait for CPUs, and how long
  double overhead_ = 0, message_ = 0;
  double copying_ = 0, copied_ = 0;  // per segment, in one direction between a GPU and its host
  int rounds_ = 0;
};

}  // namespace

bool is_joint_call(const Shape& shape, const Recipe& recipe) {
  return shape.joint_call && recipe.ownership == Ownership::kSplit &&
         recipe.algorithms == std::vector{Algorithm::kNative};
}

Prediction predict(const Shape& shape, const Recipe& recipe, ech_collective collective,
                   double bytes) {
  if (shape.tiers.empty()) return {.busiest = "nothing"};
  const double whole = std::max(bytes, 1.0);
  const double segment = recipe.segment == 0 ? whole : std::min<double>(recipe.segment, whole);
  return Model(shape, recipe, collective, segment).run(whole);
}

}  // namespace echelon
