// SPDX-License-Identifier: Apache-2.0
// What a floor needs within a host: memory that its first rank shares with the others, and flags by
// which they wake each other. Who waits sleeps at once.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "bench/network_links.h"
#include "echelon/echelon.hpp"
#include "lib/base/fd.h"

namespace echelon {

// Rounds that somebody has ended, ever.
class alignas(64) Rounds {
 public:
  void raise(std::uint32_t to) {
    ended_.store(to);
    if (sleepers_.load() > 0) futex(FUTEX_WAKE, INT32_MAX);
  }
  void wait_for(std::uint32_t wanted) {
    for (std::uint32_t seen; (seen = ended_.load()) < wanted;) {
      ++sleepers_;
      futex(FUTEX_WAIT, static_cast<int>(seen));  // not if it has changed meanwhile
      --sleepers_;
    }
  }

 private:
  void futex(int what, int value) { syscall(SYS_futex, &ended_, what, value, nullptr, nullptr, 0); }

  std::atomic<std::uint32_t> ended_{0}, sleepers_{0};
};

// A slot of so many bytes for what each rank brings but the first, whose slot and flag are the
// result's.
class SharedSlots {
 public:
  SharedSlots(ech::Communicator& comm, std::size_t bytes)
      : ranks_(comm.local_size()), self_(comm.local_rank()), bytes_(bytes) {
    if (ranks_ > kMostRanks)
      throw std::runtime_error(fmt::format("{} ranks of a host, at most {}", ranks_, kMostRanks));
    const std::array<std::int64_t, 3> mine{comm.host_index(), getpid(), self_ == 0 ? create() : -1};
    std::vector<std::int64_t> all(mine.size() * comm.size());
    comm.allgather(mine.data(), all.data(), mine.size());
    for (std::size_t i = 0; i < all.size(); i += mine.size())
      if (all[i] == mine[0] && all[i + 2] >= 0 && self_ > 0) open_of(all[i + 1], all[i + 2]);
    void* const at = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    memory_ = static_cast<std::byte*>(at);
    comm.barrier();
  }
  SharedSlots(const SharedSlots&) = delete;
  ~SharedSlots() { munmap(memory_, size()); }

  int ranks() const { return ranks_; }
  bool leads() const { return self_ == 0; }
  int self() const { return self_; }
  Rounds& staged(int rank) const { return reinterpret_cast<Rounds*>(memory_)[rank]; }
  Rounds& reduced() const { return staged(0); }
  std::byte* slot(int rank) const { return memory_ + kFlags + rank * bytes_; }
  std::byte* result() const { return slot(0); }

 private:
  static constexpr int kMostRanks = 64;
  static constexpr std::size_t kFlags = kMostRanks * sizeof(Rounds);

  std::size_t size() const { return kFlags + ranks_ * bytes_; }

  int create() {
    file_ = Fd(checked(memfd_create("floor", MFD_CLOEXEC), "memfd_create"));
    checked(ftruncate(file_.get(), static_cast<off_t>(size())), "ftruncate");
    return file_.get();
  }
  void open_of(std::int64_t pid, std::int64_t fd) {
    const auto path = fmt::format("/proc/{}/fd/{}", pid, fd);
    file_ = Fd(checked(open(path.c_str(), O_RDWR | O_CLOEXEC), path.c_str()));
  }

  const int ranks_, self_;
  const std::size_t bytes_;
  Fd file_;
  std::byte* memory_ = nullptr;
};

}  // namespace echelon
