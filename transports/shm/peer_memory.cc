// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/peer_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <cerrno>
#include <utility>

#include "lib/base/fd.h"

namespace echelon::shm {
namespace {

constexpr std::size_t kMappings = 32;  // per member; more are dropped, the oldest first

}  // namespace

PeerMemory::Mapping::Mapping(std::uint32_t pid, const Shown& shown)
    : id(shown.where), fd(shown.fd) {
  const Fd file(open(fmt::format("/proc/{}/fd/{}", pid, shown.fd).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0) return;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return;
  base = static_cast<std::byte*>(memory);
  bytes = size;
}

PeerMemory::Mapping::Mapping(Mapping&& o) noexcept
    : id(o.id), fd(o.fd), base(std::exchange(o.base, nullptr)), bytes(o.bytes) {}

PeerMemory::Mapping& PeerMemory::Mapping::operator=(Mapping&& o) noexcept {
  std::swap(id, o.id);
  std::swap(fd, o.fd);
  std::swap(base, o.base);
  std::swap(bytes, o.bytes);
  return *this;
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

const std::byte* PeerMemory::map(int member, const Shown& shown) {
  std::deque<Mapping>& known = peers_[member];
  for (const Mapping& m : known)
    if (m.id == shown.where) return m.base;
  // The same descriptor with another id: the old allocation has been freed.
  std::erase_if(known, [&](const Mapping& m) { return m.fd == shown.fd; });
  Mapping added(pids_[member], shown);
  if (added.base == nullptr) return nullptr;
  if (known.size() == kMappings) known.pop_front();
  return known.emplace_back(std::move(added)).base;
}

}  // namespace echelon::shm
