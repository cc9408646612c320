// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/simulate.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "lib/schedule/cost.h"

namespace echelon {
namespace {

double seconds(double bytes, double bytes_per_second) {
  return bytes_per_second > 0 ? bytes / bytes_per_second : 0;
}

std::uint64_t pair_key(const Transfer& t) {
  return static_cast<std::uint64_t>(t.from) << 32 | static_cast<std::uint32_t>(t.to);
}

class Simulator {
 public:
  Simulator(const Machines& machines, double bytes_per_unit)
      : machines_(machines), bytes_per_unit_(bytes_per_unit), clock_(machines.size, 0) {}

  void run(const std::vector<const Transfer*>& transfers,
           const std::vector<const GroupCall*>& calls);
  double last() const { return *std::ranges::max_element(clock_); }

 private:
  double bytes(Slice s) const { return static_cast<double>(s.size()) * bytes_per_unit_; }
  void load(const std::vector<const Transfer*>& transfers);
  double duration(const Transfer& t) const;
  double duration(const GroupCall& call) const;

  const Machines& machines_;
  const double bytes_per_unit_;
  std::vector<double> clock_;  // [rank]

  // Bytes of the step.
  std::unordered_map<std::uint64_t, double> on_pair_;
  std::vector<std::vector<CutTraffic>> on_medium_;  // [medium][domain]
  std::vector<double> added_;                       // [rank]
};

void Simulator::load(const std::vector<const Transfer*>& transfers) {
  on_pair_.clear();
  on_medium_.clear();
  added_.assign(clock_.size(), 0);
  for (const SharedMedium& medium : machines_.shared)
    on_medium_.emplace_back(medium.bytes_per_second.size());
  for (const Transfer* t : transfers) {
    const double size = bytes(t->slice);
    on_pair_[pair_key(*t)] += size;
    if (t->action == Action::kReduce) added_[t->to] += size;
    for (std::size_t m = 0; m < on_medium_.size(); ++m) {
      const std::vector<int>& domain = machines_.shared[m].domain_of_rank;
      if (domain[t->from] == domain[t->to]) continue;
      on_medium_[m][domain[t->from]].out += size;
      on_medium_[m][domain[t->to]].in += size;
    }
  }
}

double Simulator::duration(const Transfer& t) const {
  const Link link = machines_.link(t.from, t.to);
  double time = seconds(on_pair_.at(pair_key(t)), link.bytes_per_second);
  for (std::size_t m = 0; m < on_medium_.size(); ++m) {
    const SharedMedium& medium = machines_.shared[m];
    const int from = medium.domain_of_rank[t.from], to = medium.domain_of_rank[t.to];
    if (from == to) continue;
    time = std::max({time, seconds(on_medium_[m][from].out, medium.bytes_per_second[from]),
                     seconds(on_medium_[m][to].in, medium.bytes_per_second[to])});
  }
  return link.latency + time;
}

double Simulator::duration(const GroupCall& call) const {
  Unit end = 0;
  for (const Part& part : call.parts) end = std::max(end, part.slice.end);
  Schedule alone(end);
  alone.add(call);
  const Traffic most = busiest(traffic(alone, machines_.size));
  const Link link = machines_.link(call.group[0], call.group[1]);
  return 2 * link.latency + seconds(most.sent * bytes_per_unit_, link.bytes_per_second) +
         seconds(most.reduced * bytes_per_unit_, machines_.reduce_bytes_per_second);
}

void Simulator::run(const std::vector<const Transfer*>& transfers,
                    const std::vector<const GroupCall*>& calls) {
  load(transfers);
  std::vector<double> end = clock_;
  for (const Transfer* t : transfers) {
    const double arrival = std::max(clock_[t->from], clock_[t->to]) + duration(*t);
    for (const int rank : {t->from, t->to}) end[rank] = std::max(end[rank], arrival);
  }
  for (std::size_t rank = 0; rank < end.size(); ++rank)
    end[rank] += seconds(added_[rank], machines_.reduce_bytes_per_second);
  for (const GroupCall* call : calls) {
    double begin = 0;
    for (const int rank : call->group.ranks()) begin = std::max(begin, clock_[rank]);
    const double finish = begin + duration(*call);
    for (const int rank : call->group.ranks()) end[rank] = std::max(end[rank], finish);
  }
  clock_ = std::move(end);
}

}  // namespace

double simulate(const Schedule& schedule, double bytes, const Machines& machines) {
  std::vector<std::vector<const Transfer*>> transfers(schedule.steps());
  std::vector<std::vector<const GroupCall*>> calls(schedule.steps());
  for (const Transfer& t : schedule.transfers()) transfers[t.step].push_back(&t);
  for (const GroupCall& call : schedule.calls()) calls[call.step].push_back(&call);
  Simulator simulator(machines, bytes / static_cast<double>(schedule.units()));
  for (int step = 0; step < schedule.steps(); ++step) simulator.run(transfers[step], calls[step]);
  return simulator.last();
}

}  // namespace echelon
