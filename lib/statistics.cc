// SPDX-License-Identifier: Apache-2.0
#include "lib/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <sstream>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/file.h"

namespace echelon {
namespace {

// Of the time that it waited, what a rank may have been away or without a core while others may
// have waited for it to move their messages. Beyond that, how long those took says nothing of the
// links. Eight ranks on two cores: 0.05 to 0.17 alone, 0.6 and more with one busy program beside
// them.
constexpr double kMostAbsence = 0.25;

// Of this thread, since it began; 0 where the kernel does not tell.
double starved_so_far() {
  try {
    std::istringstream fields(read_file("/proc/thread-self/schedstat"));
    double running = 0, runnable = 0;  // ns
    fields >> running >> runnable;
    return runnable * 1e-9;
  } catch (const Error&) {
    return 0;
  }
}

double seconds(std::chrono::nanoseconds t) { return std::chrono::duration<double>(t).count(); }

// The first, of a rack.
int host_of_child(const Layout& layout, const LinkRate& rate, std::size_t child) {
  const TierGroup& group = layout.tiers[rate.tier].groups[rate.group];
  return layout.host_of_rank[group.children[child][0]];
}

void evaluate_links(std::span<const Notes> notes, const Layout& layout, Findings& findings) {
  findings.throughput.assign(layout.host_names.size(), 0);
  std::vector<SentToHost> sent;
  for (std::size_t r = 0; r < notes.size(); ++r) {
    const bool here = notes[r].absent + notes[r].starved <= kMostAbsence * notes[r].waited;
    if (!here || notes[r].shared != 0) return;
    for (const auto& s : notes[r].sent)
      if (s.host >= 0 && s.host < static_cast<double>(layout.host_names.size()))
        sent.push_back({static_cast<int>(r), static_cast<int>(s.host), s.bytes, s.seconds});
  }
  findings.rates = link_rates(layout, sent);
  for (const LinkRate& rate : findings.rates)
    for (const std::size_t child : {rate.from, rate.to}) {
      double& best = findings.throughput[host_of_child(layout, rate, child)];
      best = std::max(best, rate.measured);
    }
}

}  // namespace

void NoteBook::came_back() {
  absent_ += std::chrono::steady_clock::now() - left_;
  left_ = Time();
}

void NoteBook::begin_metering(std::chrono::nanoseconds gave_way) {
  starved_before_ = starved_so_far() - seconds(gave_way);
}

Notes NoteBook::close_period(const std::vector<LinkMeter::Total>& sent,
                             std::chrono::nanoseconds gave_way) {
  Notes notes;
  notes.waited = seconds(std::exchange(waited_, {}));
  notes.absent = seconds(std::exchange(absent_, {}));
  notes.shared = shared_ || under_way_ > 0 ? 1 : 0;
  shared_ = under_way_ > 0;
  if (metered_)
    notes.starved = std::max(0.0, starved_so_far() - seconds(gave_way) - starved_before_);
  timed_ = weight_ = 0;
  metered_ = false;
  std::vector<int> hosts(sent.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  std::ranges::stable_sort(hosts, std::greater(), [&](int h) { return sent[h].seconds; });
  for (std::size_t i = 0; i < std::min(hosts.size(), Notes::kHosts); ++i) {
    const LinkMeter::Total& total = sent[hosts[i]];
    if (total.bytes > 0)
      notes.sent[i] = {static_cast<double>(hosts[i]), total.bytes, total.seconds};
  }
  return notes;
}

Findings evaluate(std::span<const Notes> notes, std::uint64_t timed, const Layout& layout) {
  Findings findings;
  findings.timed = timed;
  if (timed > 0) {
    const double most = std::ranges::max(notes, {}, &Notes::waited).waited;
    for (const Notes& n : notes)
      findings.lateness.push_back((most - n.waited) / static_cast<double>(timed));
  }
  evaluate_links(notes, layout, findings);
  return findings;
}

void report(const Findings& findings, const Layout& layout, ech_stats& stats) {
  stats.periods = findings.periods;
  stats.timed = findings.timed;
  stats.slowest_rank = stats.slowest_from = stats.slowest_to = -1;
  stats.lateness = stats.measured = stats.assumed = 0;
  if (!findings.lateness.empty()) {
    const auto latest = std::ranges::max_element(findings.lateness);
    stats.slowest_rank = static_cast<int>(latest - findings.lateness.begin());
    stats.lateness = *latest;
  }
  if (!findings.rates.empty()) {
    const LinkRate& slowest = std::ranges::min(findings.rates, {}, &LinkRate::part);
    stats.slowest_from = host_of_child(layout, slowest, slowest.from);
    stats.slowest_to = host_of_child(layout, slowest, slowest.to);
    stats.measured = slowest.measured;
    stats.assumed = slowest.assumed;
  }
  if (stats.latenesses != nullptr)
    for (int r = 0; r < layout.size; ++r)
      stats.latenesses[r] = findings.lateness.empty() ? 0 : findings.lateness[r];
  if (stats.throughputs != nullptr)
    for (std::size_t h = 0; h < layout.host_names.size(); ++h)
      stats.throughputs[h] = findings.throughput.empty() ? 0 : findings.throughput[h];
}

}  // namespace echelon
