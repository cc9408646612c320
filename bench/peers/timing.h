/* SPDX-License-Identifier: Apache-2.0
 * Timing of a collective of any library the way `echelon perf` times (bench/README.md): the median
 * over samples of the slowest rank's time, each of as many operations as fit in 20 ms. All ranks
 * run on one machine. For C and C++. */
#ifndef BENCH_PEERS_TIMING_H
#define BENCH_PEERS_TIMING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kSamples = 20, kFewSamples = 3, kWarmups = 5 };

/* What is timed. `combine` gives all ranks the sum, or the largest, of their values. */
struct timed_call {
  void (*call)(void);
  void (*barrier)(void);
  double (*combine)(double mine, int largest);
  int overlaps; /* a broadcast: a rank need not wait for all others, so never back to back */
  int root;     /* this rank is its root */
};

struct timing {
  double seconds; /* per operation, of the slowest rank; a broadcast's from its root's begin on */
  double cpu;     /* of all ranks together, per operation */
};

static double seconds_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One rank's own begin and end of a sample, and its processor time, s. */
struct timing_span {
  double begin, end, cpu;
};

static struct timing_span timing_sample(const struct timed_call* of, int operations) {
  struct timing_span mine;
  double cpu;
  of->barrier();
  cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  mine.begin = seconds_of(CLOCK_MONOTONIC);
  for (int i = 0; i < operations; ++i) of->call();
  mine.end = seconds_of(CLOCK_MONOTONIC);
  mine.cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  return mine;
}

/* Of one operation, on all ranks. All ranks read one clock. */
static double timing_seconds(const struct timed_call* of, struct timing_span mine, int operations) {
  if (of->overlaps) return of->combine(mine.end, 1) - of->combine(of->root ? mine.begin : 0, 1);
  return of->combine((mine.end - mine.begin) / operations, 1);
}

static int timing_by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* How many operations fit in 20 ms, 1 to 1000. A shaped link may be ahead by its burst, 1 ms at
 * 1 Gbit/s, for which a barrier before each sample leaves time: shorter samples would get it free.
 */
static int timing_batch(double seconds) {
  const double fit = 20e-3 / seconds;
  return fit > 1000 ? 1000 : fit < 1 ? 1 : (int)fit;
}

/* Between samples there is nothing but a barrier: in a pause the buckets of shaped links fill. */
static struct timing timing_median(const struct timed_call* of) {
  double one = timing_seconds(of, timing_sample(of, 1), 1), seconds[kSamples], cpu = 0;
  const int slow = one > 0.1;
  const int samples = slow ? kFewSamples : kSamples;
  struct timing_span spans[kSamples];
  struct timing median;
  int batch;
  for (int i = 1; i < kWarmups && !slow; ++i) one = timing_seconds(of, timing_sample(of, 1), 1);
  batch = of->overlaps ? 1 : timing_batch(one);
  /* The few before may have been within the burst. */
  if (batch > 1) batch = timing_batch(timing_seconds(of, timing_sample(of, batch), batch));
  for (int i = 0; i < samples; ++i) spans[i] = timing_sample(of, batch);
  for (int i = 0; i < samples; ++i) {
    seconds[i] = timing_seconds(of, spans[i], batch);
    cpu += spans[i].cpu / samples / batch;
  }
  qsort(seconds, (size_t)samples, sizeof *seconds, timing_by_value);
  median.seconds = seconds[samples / 2];
  median.cpu = of->combine(cpu, 0);
  return median;
}

/* ---- values: exact in f32 in any order ---- */

static float timing_input(size_t element, int rank) {
  return (float)((element + (size_t)rank) % 7);
}

static float timing_sum(size_t element, int ranks) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += timing_input(element, rank);
  return sum;
}

/* A row as `echelon perf --format json` writes it. */
static void timing_print(size_t bytes, struct timing median, double wrong) {
  printf("{\"bytes\": %zu, \"time_us\": %.3f, \"cpu_s\": %.9f, \"wrong\": %.0f}\n", bytes,
         median.seconds * 1e6, median.cpu, wrong);
  fflush(stdout);
}

#endif
