// SPDX-License-Identifier: Apache-2.0
// User memory of the other members: how an owner shows its memory, and how others read it.
//
// Thread safety: none; the engine's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "lib/base/error.h"
#include "transports/shm/shared_alloc.h"

namespace echelon::shm {

// Where others find the input or output of a call. Equal for all rounds of the call.
struct Shown {
  static constexpr std::uint64_t kSlot = 0;     // in the slots of this segment
  static constexpr std::uint64_t kAddress = 1;  // at this address of the owner's, by the kernel

  std::uint64_t where = kSlot;  // or the id of a shared allocation
  std::uint64_t at = 0;         // address, or offset in the allocation
  std::uint32_t fd = 0;         // of the allocation
};

// What a ready line carries when not the payload itself.
struct ShownPair {
  Shown input;
  Shown output;
};

class PeerMemory {
 public:
  explicit PeerMemory(std::vector<std::uint32_t> pids) : peers_(pids.size()), pids_(pids) {}

  // Copies from a member's address space. ECH_ERR_PEER when it has gone, ECH_ERR_SYSTEM when it
  // cannot be read.
  ech_status read(int member, std::uint64_t address, std::byte* out, std::size_t bytes) const;

  // The allocation that `shown` names, mapped once; nullptr when it cannot be mapped. Valid until
  // the next call.
  const std::byte* map(int member, const Shown& shown);

 private:
  class Mapping {
   public:
    Mapping(std::uint32_t pid, const Shown& shown);
    Mapping(Mapping&& o) noexcept;
    Mapping& operator=(Mapping&& o) noexcept;
    ~Mapping();

    std::uint64_t id = 0;
    std::uint32_t fd = 0;
    std::byte* base = nullptr;
    std::size_t bytes = 0;
  };

  std::vector<std::deque<Mapping>> peers_;  // the oldest first
  std::vector<std::uint32_t> pids_;
};

}  // namespace echelon::shm
