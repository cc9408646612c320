// SPDX-License-Identifier: Apache-2.0
// The part of NCCL, 2.18 or newer, that Echelon uses, in declarations of our own: no header of NCCL
// is needed to build. Names are NCCL's without the prefix: comm_destroy is ncclCommDestroy.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "lib/base/dynamic_library.h"
#include "lib/base/error.h"
#include "transports/cuda/driver.h"

namespace echelon {

using NcclComm = struct NcclCommObject*;
struct NcclUniqueId {
  char bytes[128];
};

enum NcclResult : int {
  kNcclSuccess = 0,
  kNcclUnhandledCudaError = 1,
  kNcclSystemError = 2,
  kNcclInternalError = 3,
  kNcclInvalidArgument = 4,
  kNcclInvalidUsage = 5,
  kNcclRemoteError = 6,
  kNcclInProgress = 7,
};

enum NcclOp : int { kNcclSum = 0, kNcclProd = 1, kNcclMax = 2, kNcclMin = 3, kNcclAvg = 4 };

enum NcclType : int {
  kNcclInt8 = 0,
  kNcclUint8 = 1,
  kNcclInt32 = 2,
  kNcclUint32 = 3,
  kNcclInt64 = 4,
  kNcclUint64 = 5,
  kNcclFloat16 = 6,
  kNcclFloat32 = 7,
  kNcclFloat64 = 8,
  kNcclBfloat16 = 9,
};

inline constexpr int kNcclUndefined = INT_MIN;
inline constexpr int kNcclNoColor = -1;
inline constexpr int kNcclOldest = 21800;

// ncclConfig_t as it was in NCCL 2.18. A library copies the first `size` bytes over its defaults,
// so that newer ones take this for what it is: a caller of 2.18, whose later fields are undefined.
// The last 4 of these bytes, padding in 2.18, became a field in 2.25 (trafficClass), and are
// therefore set to "undefined" as well.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kNcclOldest;
  int blocking = kNcclUndefined;
  int cga_cluster_size = kNcclUndefined;
  int min_ctas = kNcclUndefined;
  int max_ctas = kNcclUndefined;
  const char* net_name = nullptr;
  int split_share = kNcclUndefined;
  int traffic_class = kNcclUndefined;
};

struct NcclLibrary {
  int version = 0;   // 21803 is 2.18.3
  std::string name;  // as it was asked for

  NcclResult (*get_version)(int* version);
  const char* (*get_error_string)(NcclResult result);
  const char* (*get_last_error)(NcclComm comm);

  NcclResult (*get_unique_id)(NcclUniqueId* id);
  NcclResult (*comm_init_rank_config)(NcclComm* comm, int ranks, NcclUniqueId id, int rank,
                                      NcclConfig* config);
  NcclResult (*comm_finalize)(NcclComm comm);
  NcclResult (*comm_destroy)(NcclComm comm);
  NcclResult (*comm_abort)(NcclComm comm);
  NcclResult (*comm_get_async_error)(NcclComm comm, NcclResult* error);

  NcclResult (*group_start)();
  NcclResult (*group_end)();
  NcclResult (*all_reduce)(const void* send, void* recv, std::size_t count, NcclType type,
                           NcclOp op, NcclComm comm, CudaStream stream);
  NcclResult (*reduce_scatter)(const void* send, void* recv, std::size_t count, NcclType type,
                               NcclOp op, NcclComm comm, CudaStream stream);
  NcclResult (*all_gather)(const void* send, void* recv, std::size_t count, NcclType type,
                           NcclComm comm, CudaStream stream);
  NcclResult (*broadcast)(const void* send, void* recv, std::size_t count, NcclType type, int root,
                          NcclComm comm, CudaStream stream);
  NcclResult (*reduce)(const void* send, void* recv, std::size_t count, NcclType type, NcclOp op,
                       int root, NcclComm comm, CudaStream stream);

  // What not every 2.18 or newer has; nullptr then.
  NcclResult (*comm_split)(NcclComm comm, int color, int key, NcclComm* part, NcclConfig* config);
  NcclResult (*comm_shrink)(NcclComm comm, int* excluded, int excluded_count, NcclComm* rest,
                            NcclConfig* config, int flags);  // 2.27
  NcclResult (*comm_register)(NcclComm comm, void* buffer, std::size_t bytes,
                              void** handle);  // 2.19
  NcclResult (*comm_deregister)(NcclComm comm, void* handle);
  NcclResult (*mem_alloc)(void** memory, std::size_t bytes);  // 2.19
  NcclResult (*mem_free)(void* memory);
};

// The library at `path`, or, if that is "", libnccl.so.2: the one that the process has loaded, else
// where the loader looks. Loaded at the first call for a path, never unloaded; nullptr when it
// cannot be used. Thread-safe.
const NcclLibrary* nccl_library(const std::string& path);

// Why not, on one line; "" when it can.
const std::string& nccl_absence(const std::string& path);

// Whether this NCCL joins ranks of a host that share a GPU: it has been told to
// (NCCL_MULTI_RANK_GPU_ENABLE=1) and heeds that (2.30 and newer), or takes them for ranks of hosts
// that NCCL_HOSTID names.
bool nccl_shares_gpus(const NcclLibrary& nccl);

std::string nccl_version_text(int version);  // "2.18.3"

// What NCCL calls our types and operators.
NcclType nccl_type(ech_dtype dtype);
NcclOp nccl_op(ech_op op);

// "ncclAllReduce: invalid argument (4): ...". ECH_ERR_PEER where another process has gone, else
// ECH_ERR_SYSTEM. `comm` may be nullptr.
Error nccl_error(const NcclLibrary& nccl, NcclResult result, const char* call, NcclComm comm);

}  // namespace echelon
