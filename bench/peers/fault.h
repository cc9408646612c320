/* SPDX-License-Identifier: Apache-2.0
 * What the programs of bench/faults have in common: a job that allreduces until something goes
 * wrong, the same for every library. It prints, with times of CLOCK_MONOTONIC in seconds:
 *   struck T            this rank does what is wrong
 *   told T TEXT         an operation has failed
 *   wrong T             an operation has ended well with a wrong result
 * PROGRAM FAULT [0 | 1], 1 for the rank that does it. */
#ifndef ECHELON_BENCH_PEERS_FAULT_H
#define ECHELON_BENCH_PEERS_FAULT_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FAULT_COUNT = 1 << 16, FAULT_PLENTY = 3600 };

static double fault_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fault_say(const char* word, const char* text) {
  printf("%s %.6f %s\n", word, fault_now(), text);
  fflush(stdout);
}

/* Before operation `number`, in the rank that does it. Returns with how many elements to call. */
static int fault_strike(const char* fault, double strike_at) {
  static int struck;
  if (fault_now() < strike_at) return FAULT_COUNT;
  if (!struck++) fault_say("struck", fault);
  if (strcmp(fault, "kill") == 0) raise(SIGKILL);
  if (strcmp(fault, "exit") == 0) _exit(7);
  if (strcmp(fault, "stop") == 0) raise(SIGSTOP);
  if (strcmp(fault, "absent") == 0) sleep(FAULT_PLENTY);
  if (strcmp(fault, "cut") == 0 &&
      system("for i in /sys/class/net/*; do ip link set dev ${i##*/} down; done") != 0)
    fault_say("broken", "cannot take the links down");
  return strcmp(fault, "count") == 0 ? FAULT_COUNT / 2 : FAULT_COUNT;
}

/* Calls step(count, data, text) until it returns nonzero, with `text` the library's words. */
static void fault_run(int argc, char** argv, int size,
                      int (*step)(int count, float* data, char* text, size_t room)) {
  static float data[FAULT_COUNT];
  static char text[1024];
  const char* fault = argc > 1 ? argv[1] : "none";
  const int culprit = argc > 2 && atoi(argv[2]) != 0;
  const double strike_at = fault_now() + 1;
  int i, count;
  for (;;) {
    count = culprit ? fault_strike(fault, strike_at) : FAULT_COUNT;
    for (i = 0; i < FAULT_COUNT; ++i) data[i] = 1;
    if (step(count, data, text, sizeof text) != 0) break;
    for (i = 0; i < count && data[i] == (float)size; ++i) continue;
    if (i < count) {
      fault_say("wrong", "");
      sleep(FAULT_PLENTY);
    }
  }
  fault_say("told", text);
  sleep(FAULT_PLENTY); /* the launcher must not take its end for a fault */
}

#endif
