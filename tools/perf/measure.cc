// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Span {
  double begin = 0, end = 0, cpu = 0;  // s

  double wall() const { return end - begin; }
};

using Work = std::function<void(int operations)>;  // back to back, and done when it returns

// The processor time is that of all threads of this process.
Span timed(const Work& work, int operations) {
  const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const double begin = seconds_of(CLOCK_MONOTONIC);
  work(operations);
  const double end = seconds_of(CLOCK_MONOTONIC);
  return {begin, end, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

// The slowest rank's seconds per operation, from `operations` after a barrier.
double probe(const Comm& comm, const Work& work, int operations) {
  comm.barrier();
  return comm.max(timed(work, operations).wall() / operations);
}

// How long one operation takes, from as many warm-ups as a fifth of the time limit allows.
double warm_up(const Comm& comm, const Work& work, const Settings& settings, double first) {
  int warmups = settings.warmups;
  if (settings.time_limit > 0) {
    const double fitting = settings.time_limit / 5 / std::max(first, 1e-9);
    warmups = static_cast<int>(std::min<double>(warmups, fitting));
  }
  return warmups > 0 ? probe(comm, work, warmups) : first;
}

EffortLimits limits_of(const Settings& settings, ech_collective collective) {
  EffortLimits limits;
  limits.most_samples = settings.iterations;
  limits.least_samples = settings.least_iterations;
  limits.seconds = settings.time_limit;
  limits.sample = settings.sample_time;
  // Where a rank need not wait for all others, the next operation would overlap the one before.
  limits.batching = !has_root(collective);
  return limits;
}

// Collective. Whether all ranks read one clock: they run on one machine, in no time namespaces.
bool share_clock(const Comm& comm) {
  const char* machine = std::getenv("ECHELON_MACHINE");
  std::string clock = machine != nullptr ? machine : "";
  if (clock.empty()) std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), clock);
  const bool known = comm.sum(clock.empty() ? 1 : 0) == 0;
  std::error_code none;
  clock += std::filesystem::read_symlink("/proc/self/ns/time", none).string();
  return comm.same_everywhere(std::hash<std::string>()(clock)) && known;
}

// Samples of operations on all ranks, each after a barrier.
class Samples {
 public:
  Samples(const Comm& comm, const Case& what, Work work, Effort effort)
      : comm_(comm),
        what_(what),
        one_clock_(has_root(what.collective) && share_clock(comm)),
        work_(std::move(work)),
        effort_(effort) {}

  void take() {
    comm_.barrier();
    const Span span = timed(work_, effort_.batch);
    cpu_ += span.cpu;
    const bool root = comm_.rank() == what_.root;
    const Moments mine = counted({span.begin, span.end}, what_.collective, root, one_clock_);
    from_.push_back(mine.from);
    to_.push_back(mine.to);
  }

  Statistics summary() {
    comm_.max(from_);
    comm_.max(to_);
    std::vector<double> seconds;
    for (std::size_t i = 0; i < to_.size(); ++i)
      seconds.push_back((to_[i] - from_[i]) / effort_.batch);
    return summarize(seconds);
  }

  // Per operation, of all ranks together.
  double cpu_seconds() const {
    return comm_.sum(cpu_) / (static_cast<double>(effort_.samples) * effort_.batch);
  }

 private:
  const Comm& comm_;
  const Case what_;
  const bool one_clock_;
  const Work work_;
  const Effort effort_;
  std::vector<double> from_, to_;  // of each sample
  double cpu_ = 0;
};

}  // namespace

Measurement measure(const Comm& comm, Trial& trial, const Settings& settings, Peer* peer) {
  const Work ours = [&](int operations) { trial.run(settings.form, operations); };
  const Work theirs = [&](int operations) { trial.run(*peer, operations); };
  trial.prepare();
  Measurement m;
  const double first = probe(comm, ours, 1);
  if (settings.check) m.wrong = trial.verify();
  const EffortLimits limits = limits_of(settings, trial.what().collective);
  Effort e = effort(warm_up(comm, ours, settings, first), limits);
  // The few before may have been within a shaped link's burst.
  if (e.batch > 1) e = effort(probe(comm, ours, e.batch), limits);
  if (peer != nullptr) probe(comm, theirs, std::max(e.batch, settings.warmups));

  const Case& what = trial.what();
  Samples samples(comm, what, ours, e), peer_samples(comm, what, theirs, e);
  for (int i = 0; i < e.samples; ++i) {
    if (peer != nullptr) peer_samples.take();  // before ours, whose result is checked
    samples.take();
  }
  m.seconds = samples.summary();
  m.cpu_seconds = samples.cpu_seconds();
  if (peer != nullptr) m.peer_seconds = peer_samples.summary().median;
  if (settings.check && !trial.what().in_place) *m.wrong += trial.verify();
  return m;
}

}  // namespace echelon::perf
