/* SPDX-License-Identifier: Apache-2.0
 *
 * What a communicator has done, and who held it up. Part of echelon.h. */
#ifndef ECHELON_STATISTICS_H_
#define ECHELON_STATISTICS_H_

#include "echelon/echelon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Since creation, on this rank. Set struct_size before the call; at most that much is written, and
 * struct_size says how much. */
typedef struct ech_counters {
  size_t struct_size;
  uint64_t operations;       /* ended, however; those with a count of 0 are not among them */
  uint64_t bytes;            /* sum of their buffer sizes */
  uint64_t network_bytes;    /* payload handed to the network transport */
  uint64_t network_messages; /* and in how many messages */
  uint64_t shared_bytes;     /* payload taken from others in shared memory or by NCCL */
  uint64_t plans;            /* plans made (cache misses) */
  uint64_t waits;            /* times this rank went to sleep while waiting */
} ech_counters;

/* Local, does not block; only for the thread that drives the communicator.
 * Errors: ECH_ERR_INVALID. */
ECH_API ech_status ech_comm_counters(const ech_comm* comm, ech_counters* counters);

/* Which rank and link held the others up in the last period whose exchange has ended on this rank:
 * 1024 operations, fewer where they are large, alike on all ranks. See docs/plans.md. */
typedef struct ech_stats {
  size_t struct_size;
  uint64_t periods;             /* since creation; 0: the rest is unknown yet */
  uint64_t timed;               /* operations of the period whose waits were timed */
  int slowest_rank;             /* the one that came last; -1: none was timed */
  double lateness;              /* of it, s per timed operation, after the first */
  double* latenesses;           /* in: NULL, or room for one number per rank */
  int slowest_from, slowest_to; /* host indices of the link that gave least of what plans assume;
                                 * -1: none was measured */
  double measured, assumed;     /* of it, bytes/s in one direction */
  double* throughputs;          /* in: NULL, or room for one number per host: what its best link
                                 * gave, 0: not measured */
  uint64_t replans;             /* times that plans were made again for a slow link */
} ech_stats;

#define ECH_STATS_INIT \
  { sizeof(ech_stats), 0, 0, -1, 0, 0, -1, -1, 0, 0, 0, 0 }

/* Local, does not block; only for the thread that drives the communicator. Set struct_size before
 * the call; at most that much is written. Errors: ECH_ERR_INVALID. */
ECH_API ech_status ech_comm_stats(const ech_comm* comm, ech_stats* stats);

#ifdef __cplusplus
}
#endif
#endif /* ECHELON_STATISTICS_H_ */
