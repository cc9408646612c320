// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/shared_alloc.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "lib/base/error.h"
#include "lib/base/fd.h"

namespace echelon {
namespace {

constexpr std::size_t kPage = 4096;

struct Allocation {
  Fd fd;
  std::uint64_t id;
  std::size_t bytes;
};

// The map is guarded by the mutex.
struct Registry {
  std::shared_mutex mutex;
  std::map<const std::byte*, Allocation> allocations;
  std::atomic<std::size_t> count{0};
  std::uint64_t next_id = 2;
};

// Never destroyed: memory may be freed while the process ends.
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

}  // namespace

void* shared_alloc(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX - kPage)
    throw Error(ECH_ERR_NO_MEMORY,
                fmt::format("shared allocation of {} bytes is too large", bytes));
  const std::size_t size = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  Fd fd(memfd_create("echelon-alloc", MFD_CLOEXEC));
  if (!fd) throw system_error("create shared allocation");
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    throw system_error(fmt::format("size shared allocation of {} bytes", size));
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) throw system_error(fmt::format("map {} bytes", size));
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  all.allocations[static_cast<std::byte*>(memory)] = {std::move(fd), all.next_id++, size};
  ++all.count;
  return memory;
}

void shared_free(void* memory) {
  if (memory == nullptr) return;
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  const auto at = all.allocations.find(static_cast<std::byte*>(memory));
  if (at == all.allocations.end())
    throw invalid(fmt::format("free of {}, which is no shared allocation", memory));
  munmap(memory, at->second.bytes);
  all.allocations.erase(at);
  --all.count;
}

std::optional<SharedRange> find_shared(const void* data, std::size_t bytes) {
  Registry& all = registry();
  if (all.count.load(std::memory_order_acquire) == 0) return std::nullopt;
  const auto* begin = static_cast<const std::byte*>(data);
  std::shared_lock lock(all.mutex);
  auto at = all.allocations.upper_bound(begin);
  if (at == all.allocations.begin()) return std::nullopt;
  --at;
  const std::size_t offset = static_cast<std::size_t>(begin - at->first);
  if (offset > at->second.bytes || bytes > at->second.bytes - offset) return std::nullopt;
  return SharedRange{at->second.fd.get(), at->second.id, offset};
}

}  // namespace echelon
