// SPDX-License-Identifier: Apache-2.0
// The functions of the stand-in for libnccl.so.2. Their types are those of the table by which the
// library calls NCCL, so that the compiler refuses a stand-in that differs from it.
//
// Settings, from the environment:
//   STANDIN_NCCL_VERSION  what ncclGetVersion tells (22304)
//   STANDIN_NCCL_DELAY    of what a nonblocking communicator does in the background, s (1e-3)
//   STANDIN_NCCL_FAIL     errors to give, as in standin_faults.h; "async:2=3" lets the second
//                         operation that this process executes never end, with the asynchronous
//                         error 3
//
// Stricter than NCCL: there must be a current context when a communicator is made, buffers must be
// memory of its device, and ranks that call different things end their processes.
#pragma once

#include "tests/standin/standin_function.h"
#include "transports/nccl/library.h"

#pragma GCC visibility push(default)
extern "C" {
namespace echelon::standin {

Fn<&NcclLibrary::get_version> ncclGetVersion;
Fn<&NcclLibrary::get_error_string> ncclGetErrorString;
Fn<&NcclLibrary::get_last_error> ncclGetLastError;
Fn<&NcclLibrary::get_unique_id> ncclGetUniqueId;
Fn<&NcclLibrary::comm_init_rank_config> ncclCommInitRankConfig;
Fn<&NcclLibrary::comm_finalize> ncclCommFinalize;
Fn<&NcclLibrary::comm_destroy> ncclCommDestroy;
Fn<&NcclLibrary::comm_abort> ncclCommAbort;
Fn<&NcclLibrary::comm_get_async_error> ncclCommGetAsyncError;
Fn<&NcclLibrary::group_start> ncclGroupStart;
Fn<&NcclLibrary::group_end> ncclGroupEnd;
Fn<&NcclLibrary::all_reduce> ncclAllReduce;
Fn<&NcclLibrary::reduce_scatter> ncclReduceScatter;
Fn<&NcclLibrary::all_gather> ncclAllGather;
Fn<&NcclLibrary::broadcast> ncclBroadcast;
Fn<&NcclLibrary::reduce> ncclReduce;
Fn<&NcclLibrary::comm_split> ncclCommSplit;
Fn<&NcclLibrary::comm_shrink> ncclCommShrink;
Fn<&NcclLibrary::comm_register> ncclCommRegister;
Fn<&NcclLibrary::comm_deregister> ncclCommDeregister;
Fn<&NcclLibrary::mem_alloc> ncclMemAlloc;
Fn<&NcclLibrary::mem_free> ncclMemFree;

// What this process has registered with its communicators: now, and in all. For tests.
void standin_registrations(int* now, int* ever);

}  // namespace echelon::standin
}
#pragma GCC visibility pop
