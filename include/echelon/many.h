/* SPDX-License-Identifier: Apache-2.0
 *
 * The allreduce of many buffers as one operation. Part of echelon.h. */
#ifndef ECHELON_MANY_H_
#define ECHELON_MANY_H_

#include "echelon/echelon.h"

#ifdef __cplusplus
extern "C" {
#endif

/* recv[k][i] = postscale x op over ranks of (prescale x send[k][i]) for k < buffers, i < counts[k],
 * the same bits on every rank, as one operation: one plan, for the sum of the counts, one deadline,
 * one of ech_counters.operations. All ranks give the same counts, in the same order, and factors.
 *
 * In place: recv[k] == send[k], each k for itself; other overlaps with a buffer that is written are
 * invalid. Buffers with a count of 0 may be NULL, and so may the arrays when `buffers` is 0. When
 * nothing is left, the call does not synchronise. All buffers are in host memory, or all on the
 * GPU. The three arrays are read before the call returns; the buffers belong to the operation.
 *
 * Factors are for types of floats: 1 for integers, else ECH_ERR_INVALID. 16-bit types are
 * multiplied in float32 and rounded once; for them and float32 the factor is rounded to float32. An
 * average is taken before postscale. A factor of 1 leaves the bits as they are.
 *
 * The operation goes through the list in segments of at most 8 MiB. One that lies in a single
 * buffer, or on the host in buffers that follow each other in memory (send and recv alike), is not
 * copied. Any other is packed and unpacked: in memory of the communicator, kept until its end, of
 * the size of the largest such segment for each of 8 that may be under way: at most 64 MiB, twice
 * that on a GPU. While one segment is packed, those before it are on their way.
 *
 * Errors, blocking, settings and requests as for ech_allreduce, its nonblocking form and the one
 * in a CUDA stream. */
ECH_API ech_status ech_allreduce_many(const void* const* send, void* const* recv,
                                      const size_t* counts, size_t buffers, ech_dtype dtype,
                                      ech_op op, double prescale, double postscale, ech_comm* comm);
ECH_API ech_status ech_iallreduce_many(const void* const* send, void* const* recv,
                                       const size_t* counts, size_t buffers, ech_dtype dtype,
                                       ech_op op, double prescale, double postscale, ech_comm* comm,
                                       const ech_call* call, ech_request** request);
ECH_API ech_status ech_allreduce_many_on_stream(const void* const* send, void* const* recv,
                                                const size_t* counts, size_t buffers,
                                                ech_dtype dtype, ech_op op, double prescale,
                                                double postscale, ech_comm* comm, void* stream);

#ifdef __cplusplus
}
#endif
#endif /* ECHELON_MANY_H_ */
