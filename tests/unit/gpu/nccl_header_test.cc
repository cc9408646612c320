// SPDX-License-Identifier: Apache-2.0
// Our declarations of NCCL against nccl.h. Compiled where that is found.
#include "transports/nccl/library.h"
// After ours, which must not need it.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstring>

#include "tests/unit/gpu/same_type.h"

namespace echelon {
namespace {

using L = NcclLibrary;

static_assert(int{ncclSuccess} == kNcclSuccess);
static_assert(int{ncclUnhandledCudaError} == kNcclUnhandledCudaError);
static_assert(int{ncclSystemError} == kNcclSystemError);
static_assert(int{ncclInternalError} == kNcclInternalError);
static_assert(int{ncclInvalidArgument} == kNcclInvalidArgument);
static_assert(int{ncclInvalidUsage} == kNcclInvalidUsage);
static_assert(int{ncclRemoteError} == kNcclRemoteError);
static_assert(int{ncclInProgress} == kNcclInProgress);
static_assert(int{ncclSum} == kNcclSum && int{ncclProd} == kNcclProd);
static_assert(int{ncclMin} == kNcclMin && int{ncclMax} == kNcclMax && int{ncclAvg} == kNcclAvg);
static_assert(int{ncclInt8} == kNcclInt8 && int{ncclUint8} == kNcclUint8);
static_assert(int{ncclInt32} == kNcclInt32 && int{ncclUint32} == kNcclUint32);
static_assert(int{ncclInt64} == kNcclInt64 && int{ncclUint64} == kNcclUint64);
static_assert(int{ncclFloat16} == kNcclFloat16 && int{ncclBfloat16} == kNcclBfloat16);
static_assert(int{ncclFloat32} == kNcclFloat32 && int{ncclFloat64} == kNcclFloat64);
static_assert(NCCL_CONFIG_UNDEF_INT == kNcclUndefined && NCCL_SPLIT_NOCOLOR == kNcclNoColor);
static_assert(sizeof(ncclUniqueId) == sizeof(NcclUniqueId));
static_assert(alignof(ncclUniqueId) == alignof(NcclUniqueId));

static_assert(Matches<&ncclGetVersion, &L::get_version>());
static_assert(Matches<&ncclGetErrorString, &L::get_error_string>());
static_assert(Matches<&ncclGetLastError, &L::get_last_error>());
static_assert(Matches<&ncclGetUniqueId, &L::get_unique_id>());
static_assert(Matches<&ncclCommInitRankConfig, &L::comm_init_rank_config>());
static_assert(Matches<&ncclCommFinalize, &L::comm_finalize>());
static_assert(Matches<&ncclCommDestroy, &L::comm_destroy>());
static_assert(Matches<&ncclCommAbort, &L::comm_abort>());
static_assert(Matches<&ncclCommGetAsyncError, &L::comm_get_async_error>());
static_assert(Matches<&ncclGroupStart, &L::group_start>());
static_assert(Matches<&ncclGroupEnd, &L::group_end>());
static_assert(Matches<&ncclAllReduce, &L::all_reduce>());
static_assert(Matches<&ncclReduceScatter, &L::reduce_scatter>());
static_assert(Matches<&ncclAllGather, &L::all_gather>());
static_assert(Matches<&ncclBroadcast, &L::broadcast>());
static_assert(Matches<&ncclReduce, &L::reduce>());
static_assert(Matches<&ncclCommSplit, &L::comm_split>());
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
static_assert(Matches<&ncclCommRegister, &L::comm_register>());
static_assert(Matches<&ncclCommDeregister, &L::comm_deregister>());
static_assert(Matches<&ncclMemAlloc, &L::mem_alloc>());
static_assert(Matches<&ncclMemFree, &L::mem_free>());
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
static_assert(Matches<&ncclCommShrink, &L::comm_shrink>());
#endif

static_assert(sizeof(NcclConfig) == 48 && sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(ncclConfig_t, size) == offsetof(NcclConfig, size));
static_assert(offsetof(ncclConfig_t, magic) == offsetof(NcclConfig, magic));
static_assert(offsetof(ncclConfig_t, version) == offsetof(NcclConfig, version));
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(NcclConfig, blocking));
static_assert(offsetof(ncclConfig_t, cgaClusterSize) == offsetof(NcclConfig, cga_cluster_size));
static_assert(offsetof(ncclConfig_t, minCTAs) == offsetof(NcclConfig, min_ctas));
static_assert(offsetof(ncclConfig_t, maxCTAs) == offsetof(NcclConfig, max_ctas));
static_assert(offsetof(ncclConfig_t, netName) == offsetof(NcclConfig, net_name));
static_assert(offsetof(ncclConfig_t, splitShare) == offsetof(NcclConfig, split_share));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 25, 0)
static_assert(offsetof(ncclConfig_t, trafficClass) == offsetof(NcclConfig, traffic_class));
#endif

// What a library takes of ours over its defaults has to leave them what they are.
TEST(NcclHeader, OurConfigIsThePrefixOfALibrarysOwn) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  NcclConfig ours;
  EXPECT_LE(ours.version, theirs.version);
  ours.size = theirs.size;
  ours.version = theirs.version;
  EXPECT_EQ(std::memcmp(&ours, &theirs, sizeof ours), 0);
}

}  // namespace
}  // namespace echelon
