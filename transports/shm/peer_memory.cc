// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/peer_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/fd.h"

namespace echelon::shm {
namespace {

// Of all members together: the kernel's limit for a process is 65530 (vm.max_map_count).
constexpr std::size_t kMostMappings = 16384;
constexpr std::size_t kLeastMappings = 32;  // per member all the same

// Not one that has ended and that nobody has waited for yet.
bool is_alive(std::uint32_t pid) {
  char first = 0;
  return readlink(fmt::format("/proc/{}/exe", pid).c_str(), &first, 1) >= 0;
}

}  // namespace

PeerMemory::PeerMemory(std::vector<std::uint32_t> pids)
    : pids_(std::move(pids)),
      most_mappings_(
          std::max(kLeastMappings, kMostMappings / std::max<std::size_t>(1, pids_.size()))),
      peers_(pids_.size()) {}

PeerMemory::Mapping::Mapping(std::uint32_t pid, const Shown& shown) : fd(shown.fd) {
  const Fd file(open(fmt::format("/proc/{}/fd/{}", pid, shown.fd).c_str(), O_RDONLY | O_CLOEXEC));
  const auto size = file ? shared_size(file, shown.where) : std::nullopt;
  if (!size) return;
  void* memory = mmap(nullptr, *size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return;
  base = static_cast<std::byte*>(memory);
  bytes = *size;
}

PeerMemory::Mapping::~Mapping() {
  if (base != nullptr) munmap(base, bytes);
}

ech_status PeerMemory::read(int member, std::uint64_t address, std::byte* out,
                            std::size_t bytes) const {
  while (bytes > 0) {
    const iovec local{out, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t got =
        process_vm_readv(static_cast<pid_t>(pids_[member]), &local, 1, &remote, 1, 0);
    if (got <= 0) return got < 0 && errno == ESRCH ? ECH_ERR_PEER : ECH_ERR_SYSTEM;
    out += got;
    address += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return ECH_OK;
}

bool PeerMemory::can_show(const std::byte* data, std::size_t bytes) {
  if (looked_at_ == std::pair(data, bytes)) return could_show_;
  char ends[2];
  auto* const first = const_cast<std::byte*>(data);
  const iovec local{ends, sizeof ends}, remote[]{{first, 1}, {first + bytes - 1, 1}};
  could_show_ = process_vm_readv(getpid(), &local, 1, remote, 2, 0) == sizeof ends;
  looked_at_ = {data, bytes};
  return could_show_;
}

// The same descriptor with another id: the old allocation has been freed.
void PeerMemory::make_room(Mappings& mappings, std::uint32_t fd) {
  std::erase_if(mappings, [&](const auto& entry) { return entry.second.fd == fd; });
  if (mappings.size() < most_mappings_) return;
  mappings.erase(
      std::ranges::min_element(mappings, {}, [](const auto& entry) { return entry.second.used; }));
}

PeerMemory::Mapping* PeerMemory::mapping(int member, const Shown& shown) {
  Mappings& mappings = peers_[member];
  auto at = mappings.find(shown.where);
  if (at == mappings.end()) {
    Mapping added(pids_[member], shown);
    if (added.base == nullptr) return nullptr;
    make_room(mappings, shown.fd);
    at = mappings.emplace(shown.where, std::move(added)).first;
  }
  at->second.used = ++clock_;
  return &at->second;
}

const std::byte* PeerMemory::map(int member, const Shown& shown, const Range& range,
                                 ech_status& status) {
  const Mapping* const found = mapping(member, shown);
  const std::size_t size = found != nullptr ? found->bytes : 0;
  const bool inside = shown.at <= size && range.offset <= size - shown.at &&
                      range.bytes <= size - shown.at - range.offset;
  if (found != nullptr && inside) return found->base + shown.at + range.offset;
  status = is_alive(pids_[member]) ? ECH_ERR_SYSTEM : ECH_ERR_PEER;
  return nullptr;
}

}  // namespace echelon::shm
