// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/faults.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <utility>

namespace echelon::test {
namespace {

using Random = std::mt19937_64;

constexpr double kLongStop = 6;  // s, longer than the ranks wait for one that is silent
constexpr int kAborts = 12;

double between(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

class Episode {
 public:
  Episode(Random& random, const cluster::Cluster& cluster) : random_(random), cluster_(cluster) {
    for (const auto& host : cluster.spec().hosts) ranks_ += host.ranks;
  }

  // Its name.
  const char* add_one(double at);
  std::vector<Blow> take();

 private:
  int any_rank() { return static_cast<int>(random_() % static_cast<unsigned>(ranks_)); }
  void add(double at, Blow::Kind kind, int target) { blows_.push_back({at, kind, target}); }
  const char* lose_host(double at);
  const char* cut_host(double at);

  Random& random_;
  const cluster::Cluster& cluster_;
  int ranks_ = 0;
  std::vector<Blow> blows_;
};

const char* Episode::lose_host(double at) {
  const int lost = static_cast<int>(random_() % static_cast<unsigned>(cluster_.size()));
  int rank = 0;
  for (int host = 0; host < cluster_.size(); ++host)
    for (int k = 0; k < cluster_.spec().hosts[host].ranks; ++k, ++rank)
      if (host == lost) add(at, Blow::kKill, rank);
  return "all ranks of a host killed";
}

const char* Episode::cut_host(double at) {
  const int host = static_cast<int>(random_() % static_cast<unsigned>(cluster_.size()));
  add(at, Blow::kCut, host);
  add(at + between(random_, 0.1, kLongStop), Blow::kMend, host);
  return "link cut, mended later";
}

const char* Episode::add_one(double at) {
  const int rank = any_rank();
  switch (random_() % 11) {
    case 0:
    case 1:
      add(at, Blow::kKill, rank);
      return "SIGKILL";
    case 2:
      add(at, Blow::kExit, rank);
      return "exit";
    case 3:
      add(at, Blow::kStop, rank);
      add(at + between(random_, 0.1, kLongStop), Blow::kKill, rank);
      return "SIGSTOP, then SIGKILL";
    case 4:
      add(at, Blow::kStop, rank);
      add(at + between(random_, 0.05, 0.8), Blow::kResume, rank);
      return "SIGSTOP, soon SIGCONT";
    case 5:
      add(at, Blow::kStop, rank);
      add(at + kLongStop, Blow::kResume, rank);
      return "SIGSTOP, late SIGCONT";
    case 6:
      add(at, Blow::kKill, rank);
      add(at, Blow::kKill, any_rank());
      return "two killed at once";
    case 7:
      return cluster_.size() > 1 ? lose_host(at) : "none";
    case 8:
      if (cluster_.size() > 1) return cut_host(at);
      [[fallthrough]];
    case 9:
      add(at, Blow::kAbort, rank);
      return "abort";
    default:
      for (int k = 0; k < kAborts; ++k) add(at + 0.25 * k, Blow::kAbort, any_rank());
      return "abort, 12 times";
  }
}

std::vector<Blow> Episode::take() {
  std::ranges::stable_sort(blows_, {}, &Blow::at);
  return std::move(blows_);
}

}  // namespace

std::vector<Blow> draw_blows(Random& random, const cluster::Cluster& cluster, double seconds,
                             std::map<std::string, int>& names) {
  Episode episode(random, cluster);
  const bool early = random() % 5 == 0;  // while the communicator is made
  const int faults = static_cast<int>(1 + random() % 4);
  for (int k = 0; k < faults; ++k) {
    const double at = early && k == 0 ? between(random, 0, 0.2) : between(random, 0.3, seconds);
    ++names[episode.add_one(at)];
  }
  return episode.take();
}

void strike(const Blow& blow, const cluster::Cluster& cluster, const Job& job,
            std::set<int>& lost) {
  if (blow.kind == Blow::kCut || blow.kind == Blow::kMend)
    return cluster.set_link(blow.target, blow.kind == Blow::kMend);
  constexpr std::array<int, 5> kSignals = {SIGKILL, SIGUSR2, SIGSTOP, SIGCONT, SIGUSR1};
  const Rank& rank = job.ranks()[static_cast<std::size_t>(blow.target)];
  const bool listens = rank.said("in").has_value();  // to the signals that mean something to it
  if (!listens && (blow.kind == Blow::kAbort || blow.kind == Blow::kExit)) return;
  if (blow.kind == Blow::kKill || blow.kind == Blow::kExit) lost.insert(blow.target);
  if (rank.open) kill(rank.process, kSignals[blow.kind]);
}

}  // namespace echelon::test
