// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/device.h"

namespace echelon {
namespace {

constexpr int kHighestPriority = -5;  // CUDA takes the nearest that there is

}  // namespace

DeviceContext::DeviceContext(const CudaDriver& cuda, CudaDevice device)
    : cuda_(cuda), device_(device) {
  check(cuda_.init(0), "cuInit");
  check(cuda_.device_primary_ctx_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  const CudaResult result =
      cuda_.device_get_attribute(&multiprocessors_, kCudaMultiprocessors, device_);
  if (result == kCudaSuccess) return;
  cuda_.device_primary_ctx_release(device_);
  check(result, "cuDeviceGetAttribute");
}

DeviceContext::~DeviceContext() { cuda_.device_primary_ctx_release(device_); }

std::optional<CudaDevice> current_device(const CudaDriver& cuda) {
  CudaContext context = nullptr;
  CudaDevice device = 0;
  if (cuda.ctx_get_current(&context) != kCudaSuccess || context == nullptr) return std::nullopt;
  if (cuda.ctx_get_device(&device) != kCudaSuccess) return std::nullopt;
  return device;
}

DeviceScope::DeviceScope(const DeviceContext& device) : cuda_(device.cuda()) {
  device.check(cuda_.ctx_push_current(device.context()), "cuCtxPushCurrent");
}

DeviceScope::~DeviceScope() {
  CudaContext context = nullptr;
  cuda_.ctx_pop_current(&context);
}

namespace {

// What fails here fails because the context is gone, and with it what was to be ended.
template <typename End>
void end_within(const DeviceContext& device, End end) {
  CudaContext context = nullptr;
  if (device.cuda().ctx_push_current(device.context()) != kCudaSuccess) return;
  end(device.cuda());
  device.cuda().ctx_pop_current(&context);
}

}  // namespace

void DeviceDeleter::operator()(CudaStreamObject* stream) const noexcept {
  end_within(*device, [&](const CudaDriver& cuda) { cuda.stream_destroy(stream); });
}

void DeviceDeleter::operator()(CudaEventObject* event) const noexcept {
  end_within(*device, [&](const CudaDriver& cuda) { cuda.event_destroy(event); });
}

void DeviceBytesDeleter::operator()(std::byte* memory) const noexcept {
  end_within(*device, [&](const CudaDriver& cuda) { cuda.mem_free(cuda_pointer(memory)); });
}

void PinnedBytesDeleter::operator()(std::byte* memory) const noexcept {
  end_within(*device, [&](const CudaDriver& cuda) { cuda.mem_free_host(memory); });
}

OwnedStream make_stream(const DeviceContext& device) {
  const DeviceScope scope(device);
  CudaStream stream = nullptr;
  device.check(
      device.cuda().stream_create_with_priority(&stream, kCudaStreamNonBlocking, kHighestPriority),
      "cuStreamCreateWithPriority");
  return {stream, {&device}};
}

OwnedEvent make_event(const DeviceContext& device) {
  const DeviceScope scope(device);
  CudaEvent event = nullptr;
  device.check(device.cuda().event_create(&event, kCudaEventDisableTiming), "cuEventCreate");
  return {event, {&device}};
}

DeviceBytes allocate_device(const DeviceContext& device, std::size_t bytes) {
  const DeviceScope scope(device);
  CudaPointer pointer = 0;
  device.check(device.cuda().mem_alloc(&pointer, bytes), "cuMemAlloc");
  return {reinterpret_cast<std::byte*>(pointer), {&device}};
}

PinnedBytes allocate_pinned(const DeviceContext& device, std::size_t bytes) {
  const DeviceScope scope(device);
  void* memory = nullptr;
  device.check(device.cuda().mem_host_alloc(&memory, bytes, kCudaHostPortable), "cuMemHostAlloc");
  return {static_cast<std::byte*>(memory), {&device}};
}

}  // namespace echelon
