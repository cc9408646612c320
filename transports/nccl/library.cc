// SPDX-License-Identifier: Apache-2.0
#include "transports/nccl/library.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

namespace echelon {
namespace {

// The first NCCL that heeds NCCL_MULTI_RANK_GPU_ENABLE.
constexpr int kHeedsSharing = 23000;

struct Loaded {
  std::optional<NcclLibrary> library;
  std::string absence;
};

int version_of(const DynamicLibrary& library, NcclLibrary& nccl) {
  library.need("ncclGetVersion", nccl.get_version);
  int version = 0;
  if (nccl.get_version(&version) != kNcclSuccess)
    throw Error(ECH_ERR_UNSUPPORTED, library.name() + " does not tell its version");
  if (version < kNcclOldest)
    throw Error(ECH_ERR_UNSUPPORTED,
                fmt::format("{} is NCCL {}, {} or newer is needed", library.name(),
                            nccl_version_text(version), nccl_version_text(kNcclOldest)));
  return version;
}

void find_communicators(const DynamicLibrary& library, NcclLibrary& nccl) {
  library.need("ncclGetErrorString", nccl.get_error_string);
  library.need("ncclGetLastError", nccl.get_last_error);
  library.need("ncclGetUniqueId", nccl.get_unique_id);
  library.need("ncclCommInitRankConfig", nccl.comm_init_rank_config);
  library.need("ncclCommFinalize", nccl.comm_finalize);
  library.need("ncclCommDestroy", nccl.comm_destroy);
  library.need("ncclCommAbort", nccl.comm_abort);
  library.need("ncclCommGetAsyncError", nccl.comm_get_async_error);
}

void find_collectives(const DynamicLibrary& library, NcclLibrary& nccl) {
  library.need("ncclGroupStart", nccl.group_start);
  library.need("ncclGroupEnd", nccl.group_end);
  library.need("ncclAllReduce", nccl.all_reduce);
  library.need("ncclReduceScatter", nccl.reduce_scatter);
  library.need("ncclAllGather", nccl.all_gather);
  library.need("ncclBroadcast", nccl.broadcast);
  library.need("ncclReduce", nccl.reduce);
}

void find_optional(const DynamicLibrary& library, NcclLibrary& nccl) {
  library.find("ncclCommSplit", nccl.comm_split);
  library.find("ncclCommShrink", nccl.comm_shrink);
  library.find("ncclCommRegister", nccl.comm_register);
  library.find("ncclCommDeregister", nccl.comm_deregister);
  library.find("ncclMemAlloc", nccl.mem_alloc);
  library.find("ncclMemFree", nccl.mem_free);
}

Loaded load(const std::string& path) {
  try {
    DynamicLibrary library(path.empty() ? "libnccl.so.2" : path.c_str());
    library.keep();  // what it starts when it is called cannot be known
    NcclLibrary nccl{};
    nccl.version = version_of(library, nccl);
    nccl.name = library.name();
    find_communicators(library, nccl);
    find_collectives(library, nccl);
    find_optional(library, nccl);
    return {nccl, {}};
  } catch (const Error& e) {
    return {std::nullopt, e.what()};
  }
}

// By path. Never destroyed: what other threads have from it stays good until the process ends.
const Loaded& loaded(const std::string& path) {
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, Loaded>;
  const std::lock_guard lock(mutex);
  const auto found = all.find(path);
  return found != all.end() ? found->second : all.emplace(path, load(path)).first->second;
}

}  // namespace

const NcclLibrary* nccl_library(const std::string& path) {
  const Loaded& one = loaded(path);
  return one.library ? &*one.library : nullptr;
}

const std::string& nccl_absence(const std::string& path) { return loaded(path).absence; }

bool nccl_shares_gpus(const NcclLibrary& nccl) {
  const char* const told = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (told == nullptr || std::string_view(told) != "1") return false;
  return nccl.version >= kHeedsSharing || std::getenv("NCCL_HOSTID") != nullptr;
}

std::string nccl_version_text(int version) {
  // NCCL 2.8 and older count the minor version by hundreds, later ones by ten thousands.
  const int major_unit = version < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / 100, version % 100);
}

NcclType nccl_type(ech_dtype dtype) {
  constexpr NcclType kTypes[] = {kNcclInt8,    kNcclUint8,  kNcclInt32,   kNcclUint32,
                                 kNcclInt64,   kNcclUint64, kNcclFloat16, kNcclBfloat16,
                                 kNcclFloat32, kNcclFloat64};
  return kTypes[static_cast<int>(dtype)];
}

NcclOp nccl_op(ech_op op) {
  constexpr NcclOp kOps[] = {kNcclSum, kNcclProd, kNcclMin, kNcclMax, kNcclAvg};
  return kOps[static_cast<int>(op)];
}

Error nccl_error(const NcclLibrary& nccl, NcclResult result, const char* call, NcclComm comm) {
  const char* text = nccl.get_error_string(result);
  const char* last = nccl.get_last_error(comm);
  std::string message =
      fmt::format("{}: {} ({})", call, text != nullptr ? text : "unknown", int{result});
  if (last != nullptr && *last != '\0') message += fmt::format(": {}", last);
  while (!message.empty() && message.back() == '\n') message.pop_back();
  return {result == kNcclRemoteError ? ECH_ERR_PEER : ECH_ERR_SYSTEM, message};
}

}  // namespace echelon
