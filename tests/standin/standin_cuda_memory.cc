// SPDX-License-Identifier: Apache-2.0
#include "tests/standin/standin_cuda_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "lib/base/fd.h"

namespace echelon::standin {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMost = std::size_t{1} << 40;
constexpr int kUninitialized = 0xcd;

std::size_t pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// The same memory twice: at `address` it cannot be touched.
bool map_device_memory(Allocation& a) {
  const Fd file(memfd_create("standin-device-memory", MFD_CLOEXEC));
  const std::size_t size = pages(a.bytes);
  if (!file || ftruncate(file.get(), static_cast<off_t>(size)) != 0) return false;
  void* hidden = mmap(nullptr, size, PROT_NONE, MAP_SHARED, file.get(), 0);
  if (hidden == MAP_FAILED) return false;
  void* open = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (open == MAP_FAILED) {
    munmap(hidden, size);
    return false;
  }
  a.address = reinterpret_cast<std::uintptr_t>(hidden);
  a.mapped = static_cast<char*>(open);
  return true;
}

bool take_host_memory(Allocation& a) {
  a.mapped = static_cast<char*>(std::aligned_alloc(kPage, pages(a.bytes)));
  a.address = reinterpret_cast<std::uintptr_t>(a.mapped);
  return a.mapped != nullptr;
}

void release(const Allocation& a) {
  if (a.kind != Kind::kDevice) return std::free(a.mapped);
  munmap(a.mapped, pages(a.bytes));
  munmap(reinterpret_cast<void*>(a.address), pages(a.bytes));
}

}  // namespace

std::uintptr_t Memory::allocate(std::size_t bytes, Kind kind, int device) {
  if (bytes > kMost) return 0;
  Allocation a{0, bytes, kind, device, nullptr};
  if (!(kind == Kind::kDevice ? map_device_memory(a) : take_host_memory(a))) return 0;
  std::memset(a.mapped, kUninitialized, bytes);
  const std::lock_guard lock(mutex_);
  allocations_[a.address] = a;
  return a.address;
}

bool Memory::free(std::uintptr_t address, bool pinned) {
  std::unique_lock lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || (found->second.kind == Kind::kPinned) != pinned) return false;
  const Allocation a = found->second;
  allocations_.erase(found);
  release(a);
  return true;
}

std::optional<Allocation> Memory::find(std::uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return std::nullopt;
  const Allocation& a = (--next)->second;
  if (address - a.address >= a.bytes) return std::nullopt;
  return a;
}

char* Memory::reach(std::uintptr_t address, std::size_t bytes) const {
  const auto a = find(address);
  if (!a) return reinterpret_cast<char*>(address);
  const std::size_t offset = address - a->address;
  return bytes <= a->bytes - offset ? a->mapped + offset : nullptr;
}

// Never destroyed: threads of streams outlive main().
Memory& memory() {
  static auto& all = *new Memory;
  return all;
}

}  // namespace echelon::standin
