// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/shared_alloc.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace echelon {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

struct Allocation {
  Fd fd;
  std::uint64_t id;
  std::size_t bytes;
  pid_t owner;
};

// The map is guarded by the mutex.
struct Registry {
  std::shared_mutex mutex;
  std::map<const std::byte*, Allocation> allocations;
  std::atomic<std::size_t> count{0};
  std::atomic<std::uint64_t> next_id{2};
};

// Never destroyed: memory may be freed while the process ends.
Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

std::string file_name(std::uint64_t id) { return fmt::format("echelon-alloc-{}", id); }

Fd sealed_file(std::uint64_t id, std::size_t bytes) {
  Fd fd(memfd_create(file_name(id).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw system_error("create shared allocation");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    throw system_error(fmt::format("size shared allocation of {} bytes", bytes));
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
    throw system_error("seal shared allocation");
  return fd;
}

}  // namespace

void* shared_alloc(std::size_t bytes) {
  if (bytes > PTRDIFF_MAX - kPage)
    throw Error(ECH_ERR_NO_MEMORY,
                fmt::format("shared allocation of {} bytes is too large", bytes));
  const std::size_t size = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  Registry& all = registry();
  const std::uint64_t id = all.next_id++;
  Fd fd = sealed_file(id, size);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) throw system_error(fmt::format("map {} bytes", size));
  std::unique_lock lock(all.mutex);
  all.allocations[static_cast<std::byte*>(memory)] = {std::move(fd), id, size, getpid()};
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
  // Others may keep it mapped, but then without memory. A forked process may not take it away.
  if (at->second.owner == getpid()) madvise(memory, at->second.bytes, MADV_REMOVE);
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

std::optional<std::size_t> shared_size(const Fd& file, std::uint64_t id) {
  char name[64];
  const std::string link = fmt::format("/proc/self/fd/{}", file.get());
  const ssize_t length = readlink(link.c_str(), name, sizeof name);
  if (length < 0) return std::nullopt;
  const std::string_view found(name, static_cast<std::size_t>(length));
  if (found != "/memfd:" + file_name(id) + " (deleted)") return std::nullopt;
  struct stat info {};
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) return std::nullopt;
  if (fstat(file.get(), &info) != 0) return std::nullopt;
  return static_cast<std::size_t>(info.st_size);
}

}  // namespace echelon
