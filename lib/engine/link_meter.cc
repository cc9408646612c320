// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/link_meter.h"

#include <algorithm>
#include <utility>

namespace echelon {

LinkMeter::LinkMeter(std::vector<int> host_of_rank, int self)
    : host_of_rank_(std::move(host_of_rank)) {
  if (host_of_rank_.empty()) return;
  own_ = host_of_rank_[self];
  links_.resize(std::ranges::max(host_of_rank_) + 1);
}

void LinkMeter::pass(Time now) {
  if (busy_ > 0) share_ += std::chrono::duration<double>(now - passed_).count() / busy_;
  passed_ = now;
}

void LinkMeter::look_at(Link& link) {
  link.total.seconds += share_ - link.since;
  link.since = share_;
}

void LinkMeter::began(int peer, Time now) {
  Link& link = links_[host_of_rank_[peer]];
  if (link.under_way++ > 0) return;
  pass(now);
  ++busy_;
  link.since = share_;
}

void LinkMeter::ended(int peer, std::size_t bytes, Time now) {
  Link& link = links_[host_of_rank_[peer]];
  link.total.bytes += static_cast<double>(bytes);
  if (--link.under_way > 0) return;
  pass(now);
  look_at(link);
  --busy_;
}

std::vector<LinkMeter::Total> LinkMeter::take(Time now) {
  pass(now);
  std::vector<Total> totals;
  for (Link& link : links_) {
    if (link.under_way > 0) look_at(link);
    totals.push_back(std::exchange(link.total, {}));
  }
  return totals;
}

}  // namespace echelon
