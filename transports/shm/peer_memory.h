// SPDX-License-Identifier: Apache-2.0
// User memory of the other members: how an owner shows its memory, and how others read it.
//
// Thread safety: none; the engine's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
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

  bool is_shared() const { return where != kSlot && where != kAddress; }
};

// The two buffers of a call.
struct ShownPair {
  Shown input;
  Shown output;
};

class PeerMemory {
 public:
  explicit PeerMemory(std::vector<std::uint32_t> pids);

  // Copies from a member's address space. ECH_ERR_PEER when it has gone, ECH_ERR_SYSTEM when it
  // cannot be read.
  ech_status read(int member, std::uint64_t address, std::byte* out, std::size_t bytes) const;

  // Whether the kernel copies our own memory for others: not that of devices, for instance. Looks
  // at both ends; what was looked at last is remembered.
  bool can_show(const std::byte* data, std::size_t bytes);

  // Bytes of a member's memory, counted from what it shows.
  struct Range {
    std::size_t offset;
    std::size_t bytes;
  };

  // Where `range` of the allocation that `shown` names lies here. The allocation is mapped once.
  // nullptr, with the reason in `status`, when that cannot be: ECH_ERR_PEER when the member has
  // gone, else ECH_ERR_SYSTEM, as for one that it has freed. Valid until the next call.
  const std::byte* map(int member, const Shown& shown, const Range& range, ech_status& status);

  // How many allocations of one member are kept mapped. More go, the least recently used first.
  std::size_t most_mappings() const { return most_mappings_; }

 private:
  class Mapping {
   public:
    Mapping(std::uint32_t pid, const Shown& shown);  // `base` stays empty when it cannot be
    Mapping(Mapping&& o) noexcept
        : fd(o.fd), used(o.used), base(std::exchange(o.base, nullptr)), bytes(o.bytes) {}
    ~Mapping();

    const std::uint32_t fd;
    std::uint64_t used = 0;  // when, by `clock_`
    std::byte* base = nullptr;
    std::size_t bytes = 0;
  };
  using Mappings = std::map<std::uint64_t, Mapping>;  // by the id of the allocation

  Mapping* mapping(int member, const Shown& shown);
  void make_room(Mappings& mappings, std::uint32_t fd);

  const std::vector<std::uint32_t> pids_;
  const std::size_t most_mappings_;
  std::vector<Mappings> peers_;
  std::uint64_t clock_ = 0;
  std::pair<const std::byte*, std::size_t> looked_at_{};
  bool could_show_ = false;
};

}  // namespace echelon::shm
