// SPDX-License-Identifier: Apache-2.0
// The stand-in for libcuda.so.1: memory and copies.
#include <cstring>
#include <thread>

#include "tests/standin/standin_cuda.h"
#include "tests/standin/standin_cuda_api.h"
#include "tests/standin/standin_cuda_memory.h"
#include "tests/standin/standin_cuda_state.h"

namespace echelon::standin {
namespace {

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

CudaResult enter_with_context(std::string_view function) {
  const CudaResult error = enter(function);
  if (error != kCudaSuccess) return error;
  return current_device() < 0 ? kCudaInvalidContext : kCudaSuccess;
}

CudaResult allocate(CudaPointer* pointer, std::size_t bytes, Kind kind) {
  if (pointer == nullptr || bytes == 0) return kCudaInvalidValue;
  *pointer = memory().allocate(bytes, kind, current_device());
  return *pointer != 0 ? kCudaSuccess : kCudaOutOfMemory;
}

// As CUDA does, only after what was enqueued on the device.
CudaResult give_back(std::uintptr_t address, bool pinned) {
  const auto found = memory().find(address);
  if (!found || found->address != address) return kCudaInvalidValue;
  finish_device(found->device);
  return memory().free(address, pinned) ? kCudaSuccess : kCudaInvalidValue;
}

bool on_device(const std::optional<Allocation>& a) { return a && a->kind != Kind::kPinned; }

// One end of a copy.
struct End {
  std::optional<Allocation> allocation;
  char* mapped = nullptr;
};

End end_at(std::uintptr_t address, std::size_t bytes) {
  return {memory().find(address), memory().reach(address, bytes)};
}

// The engine that a copy occupies; nullptr inside a device and inside the host.
std::mutex* engine_of(const End& to, const End& from) {
  if (on_device(to.allocation) == on_device(from.allocation)) return nullptr;
  auto& devices = state().devices;
  return on_device(to.allocation) ? &devices[to.allocation->device].from_host
                                  : &devices[from.allocation->device].to_host;
}

void copy(char* to, const char* from, std::size_t bytes, std::mutex* engine) {
  const State& s = state();
  const auto lock = engine != nullptr ? std::unique_lock(*engine) : std::unique_lock<std::mutex>();
  const auto begin = Clock::now();
  std::memmove(to, from, bytes);
  double seconds = s.latency;
  if (engine != nullptr && s.bandwidth > 0) seconds += static_cast<double>(bytes) / s.bandwidth;
  if (seconds > 0) std::this_thread::sleep_until(begin + std::chrono::duration<double>(seconds));
}

// Pageable memory of the host is read and written before the call returns, which is the slower of
// the two things that CUDA may do.
CudaResult enqueue_copy(std::uintptr_t to, std::uintptr_t from, std::size_t bytes,
                        CudaStream stream) {
  const End target = end_at(to, bytes), source = end_at(from, bytes);
  if (target.mapped == nullptr || source.mapped == nullptr) return kCudaInvalidValue;
  MarkPtr mark;
  const CudaResult result = enqueue(
      stream,
      [=, engine = engine_of(target, source)] {
        copy(target.mapped, source.mapped, bytes, engine);
      },
      &mark);
  const bool pageable = !target.allocation || !source.allocation;
  if (result == kCudaSuccess && pageable) mark->wait();
  return result;
}

}  // namespace

CudaResult cuPointerGetAttributes(unsigned count, CudaPointerAttribute* which, void** values,
                                  CudaPointer pointer) {
  const CudaResult error = enter("cuPointerGetAttributes");
  if (error != kCudaSuccess) return error;
  const auto found = memory().find(pointer);
  for (unsigned i = 0; i < count; ++i) {
    switch (which[i]) {
      case kCudaPointerContext:
        *static_cast<CudaContext*>(values[i]) = found ? context_of(found->device) : nullptr;
        break;
      case kCudaPointerMemoryType:
        *static_cast<unsigned*>(values[i]) = !found ? 0u
                                             : on_device(found)
                                                 ? static_cast<unsigned>(kCudaMemoryDevice)
                                                 : static_cast<unsigned>(kCudaMemoryHost);
        break;
      case kCudaPointerIsManaged:
        *static_cast<unsigned*>(values[i]) = found && found->kind == Kind::kManaged;
        break;
      case kCudaPointerDevice:
        *static_cast<int*>(values[i]) = found ? found->device : -2;
        break;
      default:
        return kCudaInvalidValue;
    }
  }
  return kCudaSuccess;
}

CudaResult cuMemAlloc_v2(CudaPointer* pointer, std::size_t bytes) {
  const CudaResult error = enter_with_context("cuMemAlloc_v2");
  return error != kCudaSuccess ? error : allocate(pointer, bytes, Kind::kDevice);
}

CudaResult cuMemAllocManaged(CudaPointer* pointer, std::size_t bytes, unsigned) {
  const CudaResult error = enter_with_context("cuMemAllocManaged");
  return error != kCudaSuccess ? error : allocate(pointer, bytes, Kind::kManaged);
}

CudaResult cuMemFree_v2(CudaPointer pointer) {
  const CudaResult error = enter_with_context("cuMemFree_v2");
  return error != kCudaSuccess ? error : give_back(pointer, false);
}

CudaResult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  const CudaResult error = enter_with_context("cuMemHostAlloc");
  if (error != kCudaSuccess) return error;
  CudaPointer address = 0;
  const CudaResult result = allocate(&address, bytes, Kind::kPinned);
  if (result == kCudaSuccess) *pointer = reinterpret_cast<void*>(address);
  return result;
}

CudaResult cuMemFreeHost(void* pointer) {
  const CudaResult error = enter_with_context("cuMemFreeHost");
  return error != kCudaSuccess ? error : give_back(address_of(pointer), true);
}

CudaResult cuMemcpyAsync(CudaPointer to, CudaPointer from, std::size_t bytes, CudaStream stream) {
  const CudaResult error = enter("cuMemcpyAsync");
  return error != kCudaSuccess ? error : enqueue_copy(to, from, bytes, stream);
}

CudaResult cuMemcpyDtoHAsync_v2(void* to, CudaPointer from, std::size_t bytes, CudaStream stream) {
  const CudaResult error = enter("cuMemcpyDtoHAsync_v2");
  if (error != kCudaSuccess) return error;
  if (!on_device(memory().find(from))) return kCudaInvalidValue;
  return enqueue_copy(address_of(to), from, bytes, stream);
}

CudaResult cuMemcpyHtoDAsync_v2(CudaPointer to, const void* from, std::size_t bytes,
                                CudaStream stream) {
  const CudaResult error = enter("cuMemcpyHtoDAsync_v2");
  if (error != kCudaSuccess) return error;
  if (!on_device(memory().find(to))) return kCudaInvalidValue;
  return enqueue_copy(to, address_of(from), bytes, stream);
}

CudaResult cuMemsetD8Async(CudaPointer to, unsigned char value, std::size_t bytes,
                           CudaStream stream) {
  const CudaResult error = enter("cuMemsetD8Async");
  if (error != kCudaSuccess) return error;
  char* target = memory().reach(to, bytes);
  if (target == nullptr || !memory().find(to)) return kCudaInvalidValue;
  return enqueue(stream, [=] { std::memset(target, value, bytes); });
}

}  // namespace echelon::standin

void* standin_host_address(const void* pointer, std::size_t bytes) {
  return echelon::standin::memory().reach(reinterpret_cast<std::uintptr_t>(pointer), bytes);
}

int standin_device_of(const void* pointer) {
  const auto found = echelon::standin::memory().find(reinterpret_cast<std::uintptr_t>(pointer));
  return echelon::standin::on_device(found) ? found->device : -1;
}
