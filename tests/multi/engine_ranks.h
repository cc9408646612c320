// SPDX-License-Identifier: Apache-2.0
// Engines of ranks that are threads, on the reference transports.
#pragma once

#include <barrier>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/hierarchical.h"
#include "lib/base/pipeline.h"
#include "lib/engine/engine.h"
#include "transports/faulty/faulty.h"
#include "transports/loopback/loopback_group.h"
#include "transports/loopback/loopback_transport.h"

namespace echelon::test {

// hosts[h] ranks on host h, numbered through; native inside hosts, `across` between them.
struct Shape {
  std::vector<int> hosts;
  Algorithm inside = Algorithm::kNative;
  Algorithm across = Algorithm::kRing;
  Ownership ownership = Ownership::kSplit;

  int size() const { return std::accumulate(hosts.begin(), hosts.end(), 0); }
  std::vector<Group> groups() const {
    std::vector<Group> all;
    int next = 0;
    for (int n : hosts) {
      std::vector<int> members(n);
      std::iota(members.begin(), members.end(), next);
      next += n;
      all.push_back(Group(members));
    }
    return all;
  }
  Composition composition(ech_collective collective, int root) const {
    Composition c;
    c.collective = collective;
    c.size = size();
    c.root = root;
    c.ownership = ownership;
    const bool flat = hosts.size() == 1;
    if (!flat) c.tiers.push_back({groups(), inside});
    c.tiers.push_back({{Group::range(size())}, flat ? inside : across});
    return c;
  }
};

// Everything the threads share to connect.
struct Meeting {
  explicit Meeting(const Shape& shape)
      : messages(shape.size()), groups(shape.size()), everybody(shape.size()) {}
  std::vector<std::string> messages, groups;
  std::barrier<> everybody;
  std::string faults;  // of every rank's transport, see transports/faulty
};

inline constexpr int kLanes = kPipelineDepth;

inline Engine make_engine(const Shape& shape, int rank, Meeting& meeting,
                          std::unique_ptr<Memory> memory = nullptr, Planner* planner = nullptr) {
  auto medium = open_loopback();
  if (!meeting.faults.empty())
    medium = with_faults(std::move(medium), parse_faults(meeting.faults));
  auto group_medium = make_loopback_group(kLanes);
  meeting.messages[rank] = medium->address();
  meeting.groups[rank] = group_medium->address();
  meeting.everybody.arrive_and_wait();
  EngineParts parts;
  parts.memory = std::move(memory);
  parts.planner = planner;
  parts.rank = rank;
  for (std::size_t host = 0; host < shape.hosts.size(); ++host)
    parts.host_of_rank.insert(parts.host_of_rank.end(), shape.hosts[host], static_cast<int>(host));
  parts.transport = medium->connect(rank, meeting.messages);
  for (const Group& host : shape.groups()) {
    const int self = host.index_of(rank);
    if (self < 0 || host.size() < 2) continue;
    std::vector<std::string> members;
    for (int r : host.ranks()) members.push_back(meeting.groups[r]);
    parts.group = group_medium->connect(self, members);
    parts.group_ranks = host;
  }
  meeting.everybody.arrive_and_wait();
  return Engine(std::move(parts));
}

}  // namespace echelon::test
