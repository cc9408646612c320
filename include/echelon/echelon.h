/* SPDX-License-Identifier: Apache-2.0
 *
 * Echelon: topology-aware hierarchical allreduce. The C ABI.
 *
 * Conventions
 *  1. Handles are opaque. What creates one says what ends it; that function accepts NULL.
 *  2. Every fallible function returns ech_status. Outputs are written only on ECH_OK. No C++
 *     exception leaves the library; it never exits or installs signal handlers. It prints nothing
 *     but the lines of its log, to standard error, and only where no log callback is given.
 *  3. A status below zero has a one-line message on the calling thread: ech_last_error().
 *  4. Structs begin with struct_size. Set them with their _INIT macro; a zero field means its
 *     default, so a program compiled against an older header keeps working. One compiled against
 *     a newer header gets ECH_ERR_UNSUPPORTED when it sets a field that the library does not know.
 *  5. "Collective" means: every rank of the communicator calls it, in the same order, with
 *     matching arguments.
 *  6. Counts are elements, sizes are bytes, times are seconds.
 *  7. One communicator is driven by one thread at a time; different communicators by different
 *     threads at once. What may be called from any thread says "thread-safe"; no call may race
 *     with the ech_comm_destroy of its communicator, ech_comm_abort included.
 *  8. Passing NULL or a value outside its range returns ECH_ERR_INVALID and changes nothing.
 *  9. Any function may return ECH_ERR_NO_MEMORY, ECH_ERR_SYSTEM and ECH_ERR_INTERNAL; lists of
 *     errors name the others.
 */
#ifndef ECHELON_ECHELON_H_
#define ECHELON_ECHELON_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ECH_API __attribute__((visibility("default")))
#else
#define ECH_API
#endif

/* C may pass any int for an enumeration. So that looking at it is defined, C++ takes it as one. */
#ifdef __cplusplus
#define ECH_ENUM : int
extern "C" {
#else
#define ECH_ENUM
#endif

#define ECH_VERSION_MAJOR 0
#define ECH_VERSION_MINOR 1
#define ECH_VERSION_PATCH 0

/* ---- status ------------------------------------------------------------------------------ */

/* Grouped by the largest thing the caller has to give up. */
typedef enum ech_status ECH_ENUM {
  ECH_OK = 0,
  /* nothing: the call had no effect and may be made again, corrected */
  ECH_ERR_INVALID = -1,     /* the caller broke the contract                       */
  ECH_ERR_UNSUPPORTED = -2, /* valid, but not on this machine or in this build     */
  ECH_ERR_NO_MEMORY = -3,   /* memory, descriptors or another resource ran out. In the middle of
                               an operation it ends the communicator as well */
  /* the operation and its communicator */
  ECH_ERR_MISMATCH = -20, /* ranks called different things                         */
  ECH_ERR_TIMEOUT = -21,  /* the deadline passed                                   */
  ECH_ERR_PEER = -22,     /* another rank died or left                             */
  ECH_ERR_ABORTED = -23,  /* ech_comm_abort was called, here or on another rank    */
  ECH_ERR_AUTH = -24,     /* the other side does not know the job's secret         */
  /* trust in the process */
  ECH_ERR_SYSTEM = -40,  /* an operating system or driver call failed              */
  ECH_ERR_INTERNAL = -41 /* a bug in Echelon                                       */
} ech_status;

/* The library's version, which may differ from the header's. Any pointer may be NULL.
 * Local, thread-safe, does not block. */
ECH_API void ech_version(int* major, int* minor, int* patch);

/* A fixed name such as "timeout", never NULL; "unknown status" for other numbers.
 * Local, thread-safe, does not block. */
ECH_API const char* ech_status_name(ech_status status);

/* One line about the last failure on the calling thread, or "". Valid until the next failing
 * Echelon call on this thread. Local, thread-safe, does not block. */
ECH_API const char* ech_last_error(void);

/* ---- types ------------------------------------------------------------------------------- */

typedef enum ech_dtype ECH_ENUM {
  ECH_INT8 = 0,
  ECH_UINT8 = 1,
  ECH_INT32 = 2,
  ECH_UINT32 = 3,
  ECH_INT64 = 4,
  ECH_UINT64 = 5,
  ECH_FLOAT16 = 6,  /* IEEE binary16; accumulated in float32 by each rank that adds */
  ECH_BFLOAT16 = 7, /* likewise */
  ECH_FLOAT32 = 8,
  ECH_FLOAT64 = 9
} ech_dtype;

/* Integers wrap. MIN and MAX return NaN when an input is NaN. AVG is the sum divided by the
 * number of ranks; integer averages are truncated toward zero. */
typedef enum ech_op ECH_ENUM {
  ECH_SUM = 0,
  ECH_PROD = 1,
  ECH_MIN = 2,
  ECH_MAX = 3,
  ECH_AVG = 4
} ech_op;

typedef enum ech_memory ECH_ENUM {
  ECH_MEMORY_AUTO = 0, /* find out from the pointer */
  ECH_MEMORY_HOST = 1,
  ECH_MEMORY_CUDA = 2
} ech_memory;

typedef enum ech_collective ECH_ENUM {
  ECH_ALLREDUCE = 0,
  ECH_REDUCE_SCATTER = 1,
  ECH_ALLGATHER = 2,
  ECH_BROADCAST = 3,
  ECH_REDUCE = 4,
  ECH_BARRIER = 5
} ech_collective;

typedef enum ech_format ECH_ENUM { ECH_TEXT = 0, ECH_JSON = 1, ECH_TOML = 2 } ech_format;

typedef enum ech_log_level ECH_ENUM {
  ECH_LOG_ERROR = 1,
  ECH_LOG_WARN = 2,
  ECH_LOG_INFO = 3,
  ECH_LOG_DEBUG = 4
} ech_log_level;

typedef struct ech_comm ech_comm;
typedef struct ech_request ech_request;

/* ---- communicator ------------------------------------------------------------------------ */

/* Where rank 0 waits and the secret that proves membership. Plain bytes: copy it to the other
 * ranks by any private channel. */
#define ECH_UNIQUE_ID_BYTES 128
typedef struct ech_unique_id {
  char bytes[ECH_UNIQUE_ID_BYTES];
} ech_unique_id;

/* Makes an id and starts to listen for the other ranks on `interface_name` (a name such as "eth0"
 * or an address; NULL: the ECHELON_INTERFACE variable, else the interface of the default route,
 * else loopback). The calling process must become rank 0 of the communicator made from it.
 * Local, thread-safe, does not block. Errors: ECH_ERR_INVALID (no such interface). */
ECH_API ech_status ech_get_unique_id(ech_unique_id* id, const char* interface_name);

/* Gathers `bytes` bytes of every rank into recv (size x bytes, in rank order). Collective over
 * the ranks to be; returns 0 on success. */
typedef int (*ech_allgather_fn)(const void* send, void* recv, size_t bytes, void* context);

/* Called with one line without newline. May be called from any thread that is inside an Echelon
 * call, and from those of a communicator; must not call Echelon. */
typedef void (*ech_log_fn)(ech_log_level level, const char* message, void* context);

typedef struct ech_comm_options {
  size_t struct_size;
  /* How to find the others; the first that is set wins.
   *  unique_id        with rank and size
   *  allgather        with rank and size
   *  bootstrap        "env" (echelon run, torchrun, Open MPI, Slurm variables), "pmix", or
   *                   "auto" = env, else pmix, else a communicator of one. NULL means "auto". */
  const ech_unique_id* unique_id;
  ech_allgather_fn allgather;
  void* allgather_context;
  const char* bootstrap;
  int rank;
  int size;
  const char* interface_name; /* for bootstrap and control connections; NULL: see above    */
  const char* fabric_file;    /* TOML or JSON over what is discovered; NULL: ECHELON_FABRIC */
  const char* algorithm;      /* plan override, see docs/plans.md; NULL: ECHELON_ALGORITHM */
  double timeout;             /* s for an operation, from its start, and for each of creation,
                                 split and destruction; 0: ECHELON_TIMEOUT or 300 */
  int probe;                  /* 1: measure the links at creation, -1: never; 0: ECHELON_PROBE */
  ech_log_fn log;             /* NULL: standard error */
  void* log_context;
  ech_log_level log_level; /* 0: ECHELON_LOG or warn */
} ech_comm_options;

#define ECH_COMM_OPTIONS_INIT \
  { sizeof(ech_comm_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, (ech_log_level)0 }

/* Makes a communicator: finds the other ranks, discovers the fabric, exchanges it, connects.
 * Collective; blocks up to options->timeout, and up to a second more to hear from rank 0 who is
 * missing and to tell the others of a failure. `options` NULL means all defaults. End it with
 * ech_comm_destroy. Thread-safe.
 * Errors: ECH_ERR_INVALID (an option; the message names it), ECH_ERR_UNSUPPORTED, ECH_ERR_AUTH,
 * ECH_ERR_TIMEOUT (names the ranks that are missing), ECH_ERR_PEER. */
ECH_API ech_status ech_comm_create(ech_comm** comm, const ech_comm_options* options);

/* From now on does operations on host memory as `algorithm` says, as in ech_comm_options, where it
 * fits; NULL: as the library chooses, whatever was asked for at creation. To compare plans:
 * `echelon tune` does. Collective, waits for the operations that are pending; blocks as split does.
 * On one host there is only `native`, unless a plan was asked for at creation. Communicators that
 * are made of this one begin with what was asked for at its creation. Errors: those of a
 * collective; ECH_ERR_INVALID (algorithm; on all ranks, and changes nothing). */
ECH_API ech_status ech_comm_set_algorithm(ech_comm* comm, const char* algorithm);

/* Splits `parent` by color; ranks of the new communicator are ordered by (key, parent rank). A
 * rank with a negative color gets NULL. Collective over the parent. First waits for the operations
 * that are pending; blocks up to the parent's timeout in all, and a second more as creation does.
 * The new communicator is independent: it may outlive the parent and be used by another thread.
 * Errors: those of a collective, which end the parent, and those of ech_comm_create, which do
 * not. */
ECH_API ech_status ech_comm_split(ech_comm* parent, int color, int key, ech_comm** comm);

/* Waits for the operations that are pending, then releases everything, requests that were never
 * waited for among it: no request may be used after its communicator. Collective; blocks up to
 * the communicator's timeout in all; after a failure or abort it is local and returns ECH_OK within
 * 0.2 s. Everything is released whatever it returns. Errors: those of a collective. */
ECH_API ech_status ech_comm_destroy(ech_comm* comm);

/* Ends every pending and later operation, here and on the other ranks, with ECH_ERR_ABORTED.
 * Local, thread-safe, may be called any number of times, until ech_comm_destroy is called. Waits
 * for nobody; telling rank 0 takes up to 0.3 s when it does not read. Errors: ECH_ERR_INVALID. */
ECH_API ech_status ech_comm_abort(ech_comm* comm);

/* After a failure: gives the ranks of `failed` that are left a working communicator with new ranks
 * (the old order is kept), a fabric and plans made anew. First it ends every operation that is
 * pending on `failed`, here and on the other ranks, with ECH_ERR_ABORTED if that has not failed
 * yet; so it may be called by a rank that has not noticed the failure, or without one. `failed` is
 * still to be destroyed, after its requests have been waited for. Collective over the ranks that
 * are alive; blocks. A rank that is dead is not waited for; one that is silent is, for
 * ECHELON_HEARTBEAT; one that lives but does not call, up to the timeout of `failed`. Then it is
 * left out, for good, and the others make their communicator within another timeout. A rank that is
 * not to take part destroys `failed` instead. Who is cut off from the others goes on by itself;
 * look at ech_comm_size. Errors: ECH_ERR_PEER and ECH_ERR_TIMEOUT (a rank was lost meanwhile: call
 * it again, as the others will), ECH_ERR_ABORTED (this rank was left out; the others have gone on),
 * ECH_ERR_INVALID (it was shrunk before). */
ECH_API ech_status ech_comm_shrink(ech_comm* failed, ech_comm** survivors);

/* Local, do not block, thread-safe. Host index and local rank count hosts and the ranks of a
 * host in rank order. Errors: ECH_ERR_INVALID. */
ECH_API ech_status ech_comm_rank(const ech_comm* comm, int* rank);
ECH_API ech_status ech_comm_size(const ech_comm* comm, int* size);
ECH_API ech_status ech_comm_local_rank(const ech_comm* comm, int* local_rank);
ECH_API ech_status ech_comm_local_size(const ech_comm* comm, int* local_size);
ECH_API ech_status ech_comm_host_index(const ech_comm* comm, int* host_index);
ECH_API ech_status ech_comm_host_count(const ech_comm* comm, int* host_count);

/* ECH_OK, or why all operations fail now. Makes progress; local, does not block; by who drives. */
ECH_API ech_status ech_comm_status(ech_comm* comm);

/* ---- collectives -------------------------------------------------------------------------
 * Blocking forms return when the result is in place and the buffers may be reused. Collective.
 * In place: allreduce, reduce, broadcast with recv == send; reduce_scatter with
 * recv == send + rank x count elements; allgather with send == recv + rank x count elements.
 * Other overlaps are invalid. A count of 0 is valid and does not synchronise.
 * Errors: ECH_ERR_INVALID and ECH_ERR_UNSUPPORTED (memory kind), without effect; ECH_ERR_MISMATCH,
 * ECH_ERR_TIMEOUT, ECH_ERR_PEER, ECH_ERR_ABORTED, ECH_ERR_AUTH (somebody tampered with the control
 * connection), ECH_ERR_SYSTEM and ECH_ERR_INTERNAL, after which the communicator can only be
 * shrunk or destroyed and the contents of recv are unspecified; ECH_ERR_NO_MEMORY, without effect
 * when it came before the operation started, else like those. */

/* recv[i] = op over ranks of send[i], i < count, the same bits on every rank. */
ECH_API ech_status ech_allreduce(const void* send, void* recv, size_t count, ech_dtype dtype,
                                 ech_op op, ech_comm* comm);

/* send: size x count elements; recv: count elements, block `rank` of the reduced vector. */
ECH_API ech_status ech_reduce_scatter(const void* send, void* recv, size_t count, ech_dtype dtype,
                                      ech_op op, ech_comm* comm);

/* send: count elements; recv: size x count elements, block r from rank r. */
ECH_API ech_status ech_allgather(const void* send, void* recv, size_t count, ech_dtype dtype,
                                 ech_comm* comm);

/* recv on every rank = send on `root`. send is ignored elsewhere and may be NULL. */
ECH_API ech_status ech_broadcast(const void* send, void* recv, size_t count, ech_dtype dtype,
                                 int root, ech_comm* comm);

/* recv on `root` = op over ranks of send. recv is ignored elsewhere and may be NULL. */
ECH_API ech_status ech_reduce(const void* send, void* recv, size_t count, ech_dtype dtype,
                              ech_op op, int root, ech_comm* comm);

/* Returns after every rank has called it. */
ECH_API ech_status ech_barrier(ech_comm* comm);

/* ---- collectives on CUDA memory: docs/gpu.md ----------------------------------------------
 * All collectives take memory of the GPU that was current on the thread that made the communicator,
 * when every rank had one. Such operations run in order of their start, in no order with those on
 * host memory, and wait for no stream. Errors: also ECH_ERR_INVALID (buffers of two kinds or of
 * another GPU), ECH_ERR_UNSUPPORTED (a rank has no GPU; a stream that is captured). The forms below
 * begin when `stream` (cudaStream_t, CUstream; NULL: the default) has come to them, from when the
 * timeout counts, and return when they have ended: what it is given later finds their results. */
ECH_API ech_status ech_allreduce_on_stream(const void* send, void* recv, size_t count,
                                           ech_dtype dtype, ech_op op, ech_comm* comm,
                                           void* stream);
ECH_API ech_status ech_reduce_scatter_on_stream(const void* send, void* recv, size_t count,
                                                ech_dtype dtype, ech_op op, ech_comm* comm,
                                                void* stream);
ECH_API ech_status ech_allgather_on_stream(const void* send, void* recv, size_t count,
                                           ech_dtype dtype, ech_comm* comm, void* stream);
ECH_API ech_status ech_broadcast_on_stream(const void* send, void* recv, size_t count,
                                           ech_dtype dtype, int root, ech_comm* comm, void* stream);
ECH_API ech_status ech_reduce_on_stream(const void* send, void* recv, size_t count, ech_dtype dtype,
                                        ech_op op, int root, ech_comm* comm, void* stream);
ECH_API ech_status ech_barrier_on_stream(ech_comm* comm, void* stream);

/* Per operation settings. */
typedef struct ech_call {
  size_t struct_size;
  double timeout;    /* s from the start of the operation; 0: the communicator's */
  ech_memory memory; /* of both buffers */
  void* stream;      /* CUDA stream to begin in, as _on_stream does; NULL: none. Only the request
                        tells the end: give the stream nothing that needs the result before */
  const char* name;  /* for the reader of the timeline (docs/timeline.md); copied; NULL: none */
} ech_call;

#define ECH_CALL_INIT \
  { sizeof(ech_call), 0, ECH_MEMORY_AUTO, 0, 0 }

/* Nonblocking forms: start the operation and return; the buffers belong to it until ech_test or
 * ech_wait reports its end. `call` NULL means defaults. Operations of one communicator run in
 * order of their start and may overlap. Progress is made inside Echelon calls on the
 * communicator; when the last one outstanding has ended, no other rank needs more of this one. Any
 * number may be outstanding; once in 64 broadcasts and reduces, or 64 MiB of them, those that
 * follow wait inside for all ranks to come so far. A request ends with ech_wait, or else with its
 * communicator. Do not block (but with ECHELON_CHECK=1, which compares the calls
 * of all ranks first). Errors: as above. */
ECH_API ech_status ech_iallreduce(const void* send, void* recv, size_t count, ech_dtype dtype,
                                  ech_op op, ech_comm* comm, const ech_call* call,
                                  ech_request** request);
ECH_API ech_status ech_ireduce_scatter(const void* send, void* recv, size_t count, ech_dtype dtype,
                                       ech_op op, ech_comm* comm, const ech_call* call,
                                       ech_request** request);
ECH_API ech_status ech_iallgather(const void* send, void* recv, size_t count, ech_dtype dtype,
                                  ech_comm* comm, const ech_call* call, ech_request** request);
ECH_API ech_status ech_ibroadcast(const void* send, void* recv, size_t count, ech_dtype dtype,
                                  int root, ech_comm* comm, const ech_call* call,
                                  ech_request** request);
ECH_API ech_status ech_ireduce(const void* send, void* recv, size_t count, ech_dtype dtype,
                               ech_op op, int root, ech_comm* comm, const ech_call* call,
                               ech_request** request);
ECH_API ech_status ech_ibarrier(ech_comm* comm, const ech_call* call, ech_request** request);

/* Makes progress; *done = 1 when the operation has ended. Returns the operation's status; a
 * timeout that has passed ends it. Does not free. Does not block, but once when it finds a failure:
 * up to 0.3 s, and up to ECHELON_HEARTBEAT when rank 0 does not say who has failed. Errors: those
 * of a collective, and *done is set with them. */
ECH_API ech_status ech_test(ech_request* request, int* done);

/* Blocks until the operation ends, its timeout at the latest, returns its status and frees
 * *request (set to NULL). Errors: those of a collective. */
ECH_API ech_status ech_wait(ech_request** request);

/* ech_wait on each of `count` requests (NULL entries are skipped); the first failure is
 * returned after all have ended. Errors: those of a collective. */
ECH_API ech_status ech_wait_all(size_t count, ech_request** requests);

/* ---- memory ------------------------------------------------------------------------------ */

/* Allocates `bytes` of zeroed memory that the other ranks of this host can map, which spares a
 * copy in every collective that uses it. Ordinary memory in every other respect. Free it with
 * ech_free after the last operation on it has ended. ECH_MEMORY_AUTO means host memory;
 * ECH_MEMORY_CUDA is zeroed memory of the GPU that is current on the calling thread. Local,
 * thread-safe. Errors: ECH_ERR_INVALID, ECH_ERR_NO_MEMORY, ECH_ERR_UNSUPPORTED (kind). */
ECH_API ech_status ech_alloc(void** memory, size_t bytes, ech_memory kind);
/* NULL is accepted. Local, thread-safe. Errors: ECH_ERR_INVALID (not from ech_alloc). */
ECH_API ech_status ech_free(void* memory);

/* ---- what it knows and why it chooses ---------------------------------------------------- */

/* The merged fabric of all ranks in `format`. Free *text with ech_text_free. Local, thread-safe,
 * does not block. Errors: ECH_ERR_INVALID. */
ECH_API ech_status ech_comm_fabric(const ech_comm* comm, ech_format format, char** text);

typedef struct ech_question {
  size_t struct_size;
  ech_collective collective;
  ech_op op;
  ech_dtype dtype;
  size_t count; /* elements, as in the collective's own count */
  ech_memory memory;
} ech_question;

#define ECH_QUESTION_INIT \
  { sizeof(ech_question), ECH_ALLREDUCE, ECH_SUM, ECH_INT8, 0, ECH_MEMORY_AUTO }

/* The plan for one operation: choice, predicted time, lower bound, reason, rejected candidates.
 * ECH_TEXT or ECH_JSON. Free *text with ech_text_free. Local, does not block; only for the thread
 * that drives the communicator, since it may make the plan. Errors: ECH_ERR_INVALID,
 * ECH_ERR_UNSUPPORTED. */
ECH_API ech_status ech_comm_explain(ech_comm* comm, const ech_question* question, ech_format format,
                                    char** text);

/* NULL is accepted. Local, thread-safe. */
ECH_API void ech_text_free(char* text);

#undef ECH_ENUM
#ifdef __cplusplus
}
#endif

#include "echelon/many.h"
#include "echelon/statistics.h"

#endif /* ECHELON_ECHELON_H_ */
