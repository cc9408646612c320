// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/measure.h"

#include <algorithm>
#include <chrono>
#include <ctime>
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
  double wall = 0, cpu = 0;
};

// `operations` of them, back to back. The processor time is that of all threads of this process.
Span timed(Trial& trial, int operations, bool blocking) {
  const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  const double begin = seconds_of(CLOCK_MONOTONIC);
  for (int i = 0; i < operations; ++i) trial.run(blocking);
  const double end = seconds_of(CLOCK_MONOTONIC);
  return {end - begin, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

// The slowest rank's seconds per operation, from `operations` after a barrier.
double probe(const Comm& comm, Trial& trial, int operations, bool blocking) {
  comm.barrier();
  return comm.max(timed(trial, operations, blocking).wall / operations);
}

// How long one operation takes, from as many warm-ups as a fifth of the time limit allows.
double warm_up(const Comm& comm, Trial& trial, const Settings& settings, double first) {
  int warmups = settings.warmups;
  if (settings.time_limit > 0) {
    const double fitting = settings.time_limit / 5 / std::max(first, 1e-9);
    warmups = static_cast<int>(std::min<double>(warmups, fitting));
  }
  return warmups > 0 ? probe(comm, trial, warmups, settings.blocking) : first;
}

EffortLimits limits_of(const Settings& settings, ech_collective collective) {
  EffortLimits limits;
  limits.most_samples = settings.iterations;
  limits.least_samples = settings.least_iterations;
  limits.seconds = settings.time_limit;
  // Where a rank need not wait for all others, the next operation would overlap the one before.
  limits.batching = !has_root(collective);
  return limits;
}

}  // namespace

Measurement measure(const Comm& comm, Trial& trial, const Settings& settings) {
  trial.prepare();
  Measurement m;
  const double first = probe(comm, trial, 1, settings.blocking);
  if (settings.check) m.wrong = trial.verify();
  const double each = warm_up(comm, trial, settings, first);
  const Effort e = effort(each, limits_of(settings, trial.what().collective));
  if (e.batch > 1) probe(comm, trial, e.batch, settings.blocking);

  std::vector<double> samples(e.samples);
  double cpu = 0;
  for (double& sample : samples) {
    comm.barrier();
    const Span span = timed(trial, e.batch, settings.blocking);
    sample = span.wall / e.batch;
    cpu += span.cpu;
  }
  comm.max(samples);
  m.seconds = summarize(samples);
  m.cpu_seconds = comm.sum(cpu) / (static_cast<double>(e.samples) * e.batch);
  if (settings.check && !trial.what().in_place) *m.wrong += trial.verify();
  return m;
}

}  // namespace echelon::perf
