// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/cuda_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace echelon {

CudaMemory::CudaMemory(const DeviceContext& device, int lanes, Arrival arrival)
    : device_(device), arrival_(arrival), news_(device), kernels_(device) {
  lanes_.resize(static_cast<std::size_t>(lanes));
  for (Lane& lane : lanes_) {
    lane.stream = make_stream(device_);
    lane.event = make_event(device_);
  }
}

// What is outgrown is kept to the end: freeing memory waits for the whole device, and with it for
// kernels of NCCL that wait for other ranks. Sizes double, so that it is not more than what is in
// use.
std::byte* CudaMemory::reserve(int lane, Use use, std::size_t bytes) {
  Lane& l = lanes_[static_cast<std::size_t>(lane)];
  std::size_t& capacity = use == Use::kWork ? l.work_bytes : l.incoming_bytes;
  const bool pinned = use == Use::kIncoming && arrival_ == Arrival::kPinned;
  DeviceBytes& own = use == Use::kWork ? l.work : l.incoming;
  if (bytes > capacity) {
    const std::size_t more = std::bit_ceil(bytes);
    outgrown_.reserve(outgrown_.size() + 1);
    outgrown_pinned_.reserve(outgrown_pinned_.size() + 1);
    if (pinned)
      outgrown_pinned_.push_back(std::exchange(l.pinned, allocate_pinned(device_, more)));
    else
      outgrown_.push_back(std::exchange(own, allocate_device(device_, more)));
    capacity = more;
  }
  return pinned ? l.pinned.get() : own.get();
}

bool CudaMemory::is_pinned(const std::byte* memory) const {
  return std::ranges::any_of(lanes_, [memory](const Lane& lane) {
    return lane.pinned != nullptr && memory >= lane.pinned.get() &&
           memory < lane.pinned.get() + lane.incoming_bytes;
  });
}

// The lane, about to have more to do.
CudaMemory::Lane& CudaMemory::give(int lane) {
  Lane& l = lanes_[static_cast<std::size_t>(lane)];
  l.busy = true;
  l.marked = false;
  return l;
}

void CudaMemory::copy(int lane, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return;
  const DeviceScope scope(device_);
  const CudaStream stream = give(lane).stream.get();
  device_.check(device_.cuda().memcpy_async(cuda_pointer(to), cuda_pointer(from), bytes, stream),
                "cuMemcpyAsync");
}

void CudaMemory::reduce(int lane, const Reduction& work) {
  if (work.count == 0) return;
  const DeviceScope scope(device_);
  kernels_.reduce(give(lane).stream.get(), work);
}

void CudaMemory::divide(int lane, const Division& work) {
  if (work.count == 0) return;
  const DeviceScope scope(device_);
  kernels_.divide(give(lane).stream.get(), work);
}

void CudaMemory::scale(int lane, const Scaling& work) {
  if (work.count == 0) return;
  const DeviceScope scope(device_);
  kernels_.scale(give(lane).stream.get(), work);
}

bool CudaMemory::done(int lane) {
  Lane& l = lanes_[static_cast<std::size_t>(lane)];
  if (!l.busy) return true;
  const DeviceScope scope(device_);
  if (!l.marked) {
    device_.check(device_.cuda().event_record(l.event.get(), l.stream.get()), "cuEventRecord");
    l.marked = true;
  }
  const CudaResult result = device_.cuda().event_query(l.event.get());
  if (result == kCudaNotReady) return false;
  device_.check(result, "a GPU");
  l.busy = false;
  return true;
}

void CudaMemory::settle() noexcept {
  CudaContext context = nullptr;
  if (device_.cuda().ctx_push_current(device_.context()) != kCudaSuccess) return;
  for (Lane& lane : lanes_) {
    device_.cuda().stream_synchronize(lane.stream.get());
    lane.busy = false;
  }
  device_.cuda().ctx_pop_current(&context);
}

bool CudaMemory::arm() {
  const DeviceScope scope(device_);
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!lanes_[lane].busy) continue;
    if (done(static_cast<int>(lane))) return false;
    news_.ring_after(lanes_[lane].stream.get());
  }
  return true;
}

}  // namespace echelon
