// SPDX-License-Identifier: Apache-2.0
// The stand-in for libnccl.so.2: its functions.
#include <cstdint>
#include <cstring>
#include <map>

#include "tests/standin/standin_cuda.h"
#include "tests/standin/standin_cuda_api.h"
#include "tests/standin/standin_nccl_api.h"
#include "tests/standin/standin_nccl_group.h"

namespace echelon::standin {
namespace {

// The communicators that there are, and what is registered with them. Never destroyed: threads of
// streams outlive main().
struct Registry {
  std::mutex mutex;
  std::map<NcclComm, CommPtr> comms;
  std::map<std::uintptr_t, NcclComm> registrations;
  std::uintptr_t registrations_made = 0;
};

Registry& registry() {
  static auto& one = *new Registry;
  return one;
}

CommPtr find(NcclComm handle) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().comms.find(handle);
  return found != registry().comms.end() ? found->second : nullptr;
}

CommPtr take(NcclComm handle) {
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().registrations,
                [&](const auto& entry) { return entry.second == handle; });
  auto node = registry().comms.extract(handle);
  return node.empty() ? nullptr : node.mapped();
}

NcclComm add(const CommPtr& comm) {
  const auto handle = reinterpret_cast<NcclComm>(comm.get());
  const std::lock_guard lock(registry().mutex);
  registry().comms[handle] = comm;
  return handle;
}

// The last thing that was wrong in this thread.
std::string& last_error() {
  thread_local std::string text;
  return text;
}

NcclResult wrong(NcclResult result, const std::string& text) {
  last_error() = text;
  return result;
}

NcclResult injected(const char* function) {
  const int error = nccl_faults().next(function);
  return error == 0 ? kNcclSuccess
                    : wrong(NcclResult(error), std::string(function) + " was told to fail");
}

// Calls outside a group are a group of one.
template <typename Body>
NcclResult grouped(const Body& body) {
  Group& group = Group::of_thread();
  const bool alone = !group.open();
  group.start();
  const NcclResult result = body(group);
  if (result != kNcclSuccess) group.fail(result);
  const NcclResult ended = group.end();
  return alone ? ended : result;
}

struct Here {
  CudaContext context = nullptr;
  CudaDevice device = -1;
};

NcclResult find_device(Here& here) {
  if (cuCtxGetCurrent(&here.context) == kCudaSuccess && here.context != nullptr &&
      cuCtxGetDevice(&here.device) == kCudaSuccess)
    return kNcclSuccess;
  return wrong(kNcclUnhandledCudaError, "no context is current");
}

NcclResult check_config(const NcclConfig* config) {
  const bool good = config == nullptr ||
                    (config->magic == NcclConfig().magic && config->size >= sizeof(NcclConfig));
  return good ? kNcclSuccess : wrong(kNcclInvalidArgument, "config is not initialized");
}

bool is_blocking(const NcclConfig* config, bool fallback) {
  const bool said = config != nullptr && config->blocking != kNcclUndefined;
  return said ? config->blocking != 0 : fallback;
}

// Makes a communicator where `seat` is known at once.
NcclResult make(NcclComm* out, const Seat& seat, bool blocking) {
  Here here;
  if (const NcclResult error = find_device(here); error != kNcclSuccess) return error;
  const auto comm = std::make_shared<Comm>(seat, blocking, here.context, here.device);
  *out = add(comm);
  return grouped([&](Group& group) {
    group.add({comm, [comm] { comm->connect(); }});
    return kNcclSuccess;
  });
}

// A communicator that can be used now.
NcclResult find_ready(NcclComm handle, CommPtr& comm) {
  comm = find(handle);
  if (comm == nullptr) return wrong(kNcclInvalidArgument, "no such communicator");
  if (comm->result() == kNcclInProgress)
    return wrong(kNcclInvalidArgument,
                 "the communicator is used before what it does in the background has ended");
  return comm->result();
}

// Where the CPU finds a buffer of `count` elements of the communicator's device.
NcclResult reach(const Comm& comm, const void* buffer, std::size_t bytes, char*& out) {
  if (standin_device_of(buffer) != comm.device)
    return wrong(kNcclInvalidArgument, "a buffer is not in the memory of the right device");
  out = static_cast<char*>(standin_host_address(buffer, bytes));
  return out != nullptr ? kNcclSuccess
                        : wrong(kNcclInvalidArgument, "a buffer is shorter than its count");
}

NcclResult reach_both(const Comm& comm, const void* send, void* recv, Operation& operation) {
  const Terms& t = operation.terms;
  const std::size_t n = static_cast<std::size_t>(comm.seat.size), size = size_of(t.type);
  const bool is_root = comm.seat.rank == t.root;
  const std::size_t in = t.collective == Collective::kReduceScatter ? t.count * n : t.count;
  const std::size_t out = t.collective == Collective::kAllgather ? t.count * n : t.count;
  char* from = nullptr;
  NcclResult result = kNcclSuccess;
  if (t.collective != Collective::kBroadcast || is_root)
    result = reach(comm, send, in * size, from);
  operation.send = from;
  if (result != kNcclSuccess || (t.collective == Collective::kReduce && !is_root)) return result;
  return reach(comm, recv, out * size, operation.recv);
}

struct Buffers {
  const void* send;
  void* recv;
};

NcclResult collective(const char* name, Terms terms, Buffers buffers, NcclComm handle,
                      CudaStream stream) {
  return grouped([&](Group& group) {
    if (const NcclResult error = injected(name); error != kNcclSuccess) return error;
    CommPtr comm;
    if (const NcclResult error = find_ready(handle, comm); error != kNcclSuccess) return error;
    if (!is_valid(terms.type) || !is_valid(terms.op) || terms.root < 0 ||
        terms.root >= comm->seat.size)
      return wrong(kNcclInvalidArgument, "no such type, operator or root");
    if (terms.count == 0) return kNcclSuccess;
    Operation operation{terms, nullptr, nullptr};
    const NcclResult error = reach_both(*comm, buffers.send, buffers.recv, operation);
    if (error == kNcclSuccess) group.add(comm, stream, operation);
    return error;
  });
}

}  // namespace

NcclResult ncclGetVersion(int* version) {
  *version = static_cast<int>(number_from("STANDIN_NCCL_VERSION", 22304));
  return kNcclSuccess;
}

const char* ncclGetErrorString(NcclResult result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return result >= 0 && result <= kNcclInProgress ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(NcclComm) { return last_error().c_str(); }

NcclResult ncclGetUniqueId(NcclUniqueId* id) {
  if (const NcclResult error = injected("ncclGetUniqueId"); error != kNcclSuccess) return error;
  *id = {};
  const std::string name = new_name();
  std::memcpy(id->bytes, name.data(), name.size());
  return kNcclSuccess;
}

NcclResult ncclCommInitRankConfig(NcclComm* comm, int ranks, NcclUniqueId id, int rank,
                                  NcclConfig* config) {
  NcclResult error = injected("ncclCommInitRankConfig");
  if (error == kNcclSuccess) error = check_config(config);
  if (error != kNcclSuccess) return error;
  if (rank < 0 || rank >= ranks) return wrong(kNcclInvalidArgument, "rank is not below ranks");
  return make(comm, {id.bytes, rank, ranks}, is_blocking(config, true));
}

NcclResult ncclCommFinalize(NcclComm handle) {
  CommPtr comm;
  if (const NcclResult error = find_ready(handle, comm); error != kNcclSuccess) return error;
  const MarkPtr mark = comm->start([comm] { comm->flush(); });
  if (!comm->blocking) return kNcclInProgress;
  mark->wait();
  return comm->result();
}

NcclResult ncclCommDestroy(NcclComm handle) {
  const CommPtr comm = take(handle);
  if (comm == nullptr) return wrong(kNcclInvalidArgument, "no such communicator");
  comm->flush();
  comm->close();
  return kNcclSuccess;
}

NcclResult ncclCommAbort(NcclComm handle) {
  const CommPtr comm = take(handle);
  if (comm == nullptr) return wrong(kNcclInvalidArgument, "no such communicator");
  comm->abort();
  comm->close();
  return kNcclSuccess;
}

NcclResult ncclCommGetAsyncError(NcclComm handle, NcclResult* error) {
  const CommPtr comm = find(handle);
  if (comm == nullptr) return wrong(kNcclInvalidArgument, "no such communicator");
  *error = comm->result();
  return kNcclSuccess;
}

NcclResult ncclGroupStart() {
  Group::of_thread().start();
  return kNcclSuccess;
}

NcclResult ncclGroupEnd() {
  const NcclResult error = injected("ncclGroupEnd");
  if (error != kNcclSuccess) Group::of_thread().fail(error);
  return Group::of_thread().end();
}

NcclResult ncclAllReduce(const void* send, void* recv, std::size_t count, NcclType type, NcclOp op,
                         NcclComm comm, CudaStream stream) {
  return collective("ncclAllReduce", {Collective::kAllreduce, type, op, 0, count}, {send, recv},
                    comm, stream);
}

NcclResult ncclReduceScatter(const void* send, void* recv, std::size_t count, NcclType type,
                             NcclOp op, NcclComm comm, CudaStream stream) {
  return collective("ncclReduceScatter", {Collective::kReduceScatter, type, op, 0, count},
                    {send, recv}, comm, stream);
}

NcclResult ncclAllGather(const void* send, void* recv, std::size_t count, NcclType type,
                         NcclComm comm, CudaStream stream) {
  return collective("ncclAllGather", {Collective::kAllgather, type, kNcclSum, 0, count},
                    {send, recv}, comm, stream);
}

NcclResult ncclBroadcast(const void* send, void* recv, std::size_t count, NcclType type, int root,
                         NcclComm comm, CudaStream stream) {
  return collective("ncclBroadcast", {Collective::kBroadcast, type, kNcclSum, root, count},
                    {send, recv}, comm, stream);
}

NcclResult ncclReduce(const void* send, void* recv, std::size_t count, NcclType type, NcclOp op,
                      int root, NcclComm comm, CudaStream stream) {
  return collective("ncclReduce", {Collective::kReduce, type, op, root, count}, {send, recv}, comm,
                    stream);
}

// Waits for all ranks, also where the new communicator is a nonblocking one.
NcclResult ncclCommSplit(NcclComm handle, int color, int key, NcclComm* part, NcclConfig* config) {
  CommPtr comm;
  NcclResult error = injected("ncclCommSplit");
  if (error == kNcclSuccess) error = check_config(config);
  if (error == kNcclSuccess) error = find_ready(handle, comm);
  if (error != kNcclSuccess) return error;
  *part = nullptr;
  comm->flush();
  std::optional<Seat> seat;
  error = comm->split(color, key, seat);
  if (error != kNcclSuccess) return wrong(error, "the communicator was aborted");
  return seat ? make(part, *seat, is_blocking(config, comm->blocking)) : kNcclSuccess;
}

NcclResult ncclCommShrink(NcclComm handle, int* excluded, int count, NcclComm* rest,
                          NcclConfig* config, int flags) {
  const CommPtr comm = find(handle);
  NcclResult error = injected("ncclCommShrink");
  if (error == kNcclSuccess) error = check_config(config);
  if (error != kNcclSuccess) return error;
  if (comm == nullptr) return wrong(kNcclInvalidArgument, "no such communicator");
  if (flags == 1) comm->abort();
  comm->flush();
  const Seat seat = comm->shrink({excluded, excluded + count});
  return make(rest, seat, is_blocking(config, comm->blocking));
}

NcclResult ncclCommRegister(NcclComm handle, void* buffer, std::size_t bytes, void** registration) {
  CommPtr comm;
  NcclResult error = injected("ncclCommRegister");
  if (error == kNcclSuccess) error = find_ready(handle, comm);
  char* found = nullptr;
  if (error == kNcclSuccess) error = reach(*comm, buffer, bytes, found);
  if (error != kNcclSuccess) return error;
  const std::lock_guard lock(registry().mutex);
  const std::uintptr_t number = ++registry().registrations_made;
  registry().registrations[number] = handle;
  *registration = reinterpret_cast<void*>(number);
  return error;
}

// The real one does not say so, but what it changes is read while a call is taken up.
NcclResult ncclCommDeregister(NcclComm handle, void* registration) {
  CommPtr comm;
  if (const NcclResult error = find_ready(handle, comm); error != kNcclSuccess) return error;
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().registrations.find(reinterpret_cast<std::uintptr_t>(registration));
  const bool good = found != registry().registrations.end() && found->second == handle &&
                    registry().comms.contains(handle);
  if (good) registry().registrations.erase(found);
  return good ? kNcclSuccess : wrong(kNcclInvalidArgument, "no such registration");
}

void standin_registrations(int* now, int* ever) {
  const std::lock_guard lock(registry().mutex);
  *now = static_cast<int>(registry().registrations.size());
  *ever = static_cast<int>(registry().registrations_made);
}

NcclResult ncclMemAlloc(void** memory, std::size_t bytes) {
  CudaPointer pointer = 0;
  const CudaResult result = cuMemAlloc_v2(&pointer, bytes);
  *memory = reinterpret_cast<void*>(pointer);
  return result == kCudaSuccess ? kNcclSuccess : kNcclUnhandledCudaError;
}

NcclResult ncclMemFree(void* memory) {
  const CudaResult result = cuMemFree_v2(reinterpret_cast<CudaPointer>(memory));
  return result == kCudaSuccess ? kNcclSuccess : kNcclUnhandledCudaError;
}

}  // namespace echelon::standin
