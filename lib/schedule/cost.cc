// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/cost.h"

#include <algorithm>

namespace echelon {
namespace {

// Calls body(from, to, units, reduced) for everything that moves from one rank to another.
template <typename Body>
void for_each_flow(const GroupCall& call, Body body) {
  double units = 0;
  for (const Part& part : call.parts) units += static_cast<double>(part.slice.size());
  if (call.action == GroupAction::kAllreduce) {
    const double share = units / call.group.size();
    for (const int from : call.group.ranks())
      for (const int to : call.group.ranks())
        if (from != to) body(from, to, 2 * share, share);
    return;
  }
  for (const Part& part : call.parts)
    for (const int rank : call.group.ranks()) {
      const auto size = static_cast<double>(part.slice.size());
      if (rank == part.owner) continue;
      if (call.action == GroupAction::kReduceScatter) body(rank, part.owner, size, size);
      if (call.action == GroupAction::kAllgather) body(part.owner, rank, size, 0.0);
    }
}

template <typename Body>
void for_each_flow(const Schedule& schedule, Body body) {
  for (const Transfer& t : schedule.transfers()) {
    const auto units = static_cast<double>(t.slice.size());
    body(t.from, t.to, units, t.action == Action::kReduce ? units : 0.0);
  }
  for (const GroupCall& call : schedule.calls()) for_each_flow(call, body);
}

}  // namespace

std::vector<Traffic> traffic(const Schedule& schedule, int size) {
  std::vector<Traffic> ranks(size);
  for_each_flow(schedule, [&ranks](int from, int to, double units, double reduced) {
    ranks[from].sent += units;
    ranks[to].received += units;
    ranks[to].reduced += reduced;
  });
  for (const Transfer& t : schedule.transfers()) {
    ++ranks[t.from].messages;
    ++ranks[t.to].arrivals;
  }
  return ranks;
}

Traffic busiest(const std::vector<Traffic>& ranks) {
  Traffic most;
  for (const Traffic& t : ranks) {
    most.sent = std::max(most.sent, t.sent);
    most.received = std::max(most.received, t.received);
    most.reduced = std::max(most.reduced, t.reduced);
    most.messages = std::max(most.messages, t.messages);
    most.arrivals = std::max(most.arrivals, t.arrivals);
  }
  return most;
}

std::vector<CutTraffic> cut_traffic(const Schedule& schedule,
                                    const std::vector<int>& domain_of_rank) {
  const int domains = domain_of_rank.empty() ? 0 : *std::ranges::max_element(domain_of_rank) + 1;
  std::vector<CutTraffic> cuts(domains);
  for_each_flow(schedule, [&](int from, int to, double units, double) {
    const int source = domain_of_rank[from], target = domain_of_rank[to];
    if (source == target) return;
    cuts[source].out += units;
    cuts[target].in += units;
  });
  return cuts;
}

}  // namespace echelon
