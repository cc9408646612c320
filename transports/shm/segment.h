// SPDX-License-Identifier: Apache-2.0
// The memory that a rank shares with the other ranks of its host: control lines and staging.
//
// Every rank owns one segment, an anonymous memfd, and maps the segments of the others through
// /proc/<pid>/fd/<fd>. There is no name anywhere, so nothing can be left behind. A segment is
// written by its owner only, but for Bell::sleeping, which whoever wakes the owner resets.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/pipeline.h"

namespace echelon::shm {

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kInlineBytes = kLine - sizeof(std::uint64_t);

// An allreduce of no more is short: nothing about it is worth a decision (docs/shm.md).
inline constexpr std::size_t kShortBytes = 4032;

// One per lane and round parity: "round r may be read", and what fits beside it.
struct alignas(kLine) ReadyLine {
  std::atomic<std::uint64_t> ready;  // round + 1, and above 48 bits the fingerprint of the call
  std::byte payload[kInlineBytes];
};

// One per lane. Rounds that the owner has reduced, and that it will not read from others again.
struct alignas(kLine) DoneLine {
  std::atomic<std::uint64_t> reduced;
  std::atomic<std::uint64_t> finished;
};

struct LaneLines {
  ReadyLine ready[2];
  DoneLine done;
};

// How the owner waits: see bell.h.
struct alignas(kLine) BellLine {
  std::atomic<std::uint32_t> sleeping;
  std::atomic<std::uint32_t> reads_peers;  // 0: not known yet, 1: no, 2: yes
  std::atomic<std::uint64_t> stores;   // found in trials (way_trial.h), a Finding for each class
  std::atomic<std::uint64_t> reading;  // likewise
};

struct alignas(kLine) SegmentHeader {
  std::uint64_t magic;
  std::uint64_t nonce;  // of this segment, also in its address
  std::uint64_t slot_bytes;
  std::uint32_t lanes;
};

inline constexpr std::size_t kBoardBytes = 4096;  // for notes between the ranks

// The same for all members of a group.
struct SegmentShape {
  int lanes = kPipelineDepth;
  // Per lane, parity and direction. The slots that two ranks use fill a second-level cache, so that
  // what one reads has mostly left that of the other: it comes much quicker from the third.
  std::size_t slot_bytes = std::size_t{512} << 10;

  std::size_t control_bytes() const;
  std::size_t bytes() const;
};

// One mapped segment, our own or another rank's.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& o) noexcept;
  Segment& operator=(Segment&& o) noexcept;
  ~Segment();

  static Segment create(const SegmentShape& shape);  // throws ECH_ERR_SYSTEM, ECH_ERR_NO_MEMORY

  // Maps what `fd` refers to, when it holds a segment of this shape and nonce.
  // Throws ECH_ERR_INVALID otherwise.
  static Segment map(Fd fd, const SegmentShape& shape, std::uint64_t nonce);

  int fd() const { return fd_.get(); }
  const SegmentShape& shape() const { return shape_; }
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  BellLine& bell() const { return *reinterpret_cast<BellLine*>(base_ + sizeof(SegmentHeader)); }
  LaneLines& lane(int lane) const;
  std::span<std::byte> board() const;

  // Staging of a lane for rounds of one parity: what the others reduce, and what they gather.
  std::byte* input_slot(int lane, int parity) const { return slot(lane, parity); }
  std::byte* result_slot(int lane, int parity) const { return slot(lane, 2 + parity); }

  // Takes the pages of the first bytes of a lane's slots, of inputs or of results, all at once.
  // Where the kernel cannot (Linux before 5.14), each is taken when it is first written to.
  void take_input_pages(int lane, std::size_t bytes) const { take_pages(lane, 0, bytes); }
  void take_result_pages(int lane, std::size_t bytes) const { take_pages(lane, 2, bytes); }

 private:
  void take_pages(int lane, int first, std::size_t bytes) const;
  static Segment map(Fd fd, const SegmentShape& shape);
  std::byte* slot(int lane, int index) const;

  Fd fd_;
  SegmentShape shape_;
  std::byte* base_ = nullptr;
};

// What tells hosts and namespaces ("pid", "net") apart, for the address.
std::string host_identity();
std::uint64_t namespace_identity(const char* kind);
std::uint64_t random_nonce();

}  // namespace echelon::shm
