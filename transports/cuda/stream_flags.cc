// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/stream_flags.h"

#include <atomic>
#include <cstring>

namespace echelon {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kWordDistance = 64;  // a cache line each

}  // namespace

void StreamFlags::add_words() {
  pages_.push_back(allocate_pinned(device_, kPageBytes));
  std::byte* page = pages_.back().get();
  std::memset(page, 0, kPageBytes);
  free_.reserve(pages_.size() * kPageBytes / kWordDistance);  // raise() must find room
  for (std::size_t at = 0; at < kPageBytes; at += kWordDistance)
    free_.push_back(reinterpret_cast<std::uint32_t*>(page + at));
}

// A word counts up. A stream that has not yet looked at it when it is used again finds it beyond
// the value that it waits for: values are compared as distances on a circle.
StreamFlags::Flag StreamFlags::hold(CudaStream stream) {
  if (free_.empty()) add_words();
  const Flag flag{free_.back(), *free_.back() + 1};
  const DeviceScope scope(device_);
  device_.check(device_.cuda().stream_wait_value32(stream, cuda_pointer(flag.word), flag.value,
                                                   kCudaWaitGreaterOrEqual),
                "cuStreamWaitValue32");
  free_.pop_back();
  return flag;
}

void StreamFlags::raise(const Flag& flag) noexcept {
  std::atomic_ref(*flag.word).store(flag.value, std::memory_order_release);
  free_.push_back(flag.word);
}

}  // namespace echelon
