// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/stream_flags.h"

#include <atomic>
#include <cstring>
#include <map>

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

std::uint32_t* StreamFlags::take_word() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) add_words();
  std::uint32_t* const word = free_.back();
  free_.pop_back();
  return word;
}

void StreamFlags::give_back(std::uint32_t* word) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(word);
}

// A word counts up. A stream that has not yet looked at it when it is used again finds it beyond
// the value that it waits for: values are compared as distances on a circle.
StreamFlags::Flag StreamFlags::hold(CudaStream stream) {
  std::uint32_t* const word = take_word();
  const Flag flag{word, *word + 1};
  try {
    const DeviceScope scope(device_);
    device_.check(device_.cuda().stream_wait_value32(stream, cuda_pointer(word), flag.value,
                                                     kCudaWaitGreaterOrEqual),
                  "cuStreamWaitValue32");
  } catch (...) {
    give_back(word);
    throw;
  }
  return flag;
}

void StreamFlags::raise(const Flag& flag) noexcept {
  std::atomic_ref(*flag.word).store(flag.value, std::memory_order_release);
  give_back(flag.word);
}

namespace {

struct FlagsOfDevice {
  FlagsOfDevice(const CudaDriver& cuda, CudaDevice ordinal) : device(cuda, ordinal) {}
  DeviceContext device;
  StreamFlags flags{device};
};

}  // namespace

StreamFlags& stream_flags(const CudaDriver& cuda, CudaDevice device) {
  static std::mutex mutex;
  static auto& all = *new std::map<CudaDevice, std::unique_ptr<FlagsOfDevice>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<FlagsOfDevice>& one = all[device];
  if (one == nullptr) one = std::make_unique<FlagsOfDevice>(cuda, device);
  return one->flags;
}

}  // namespace echelon
