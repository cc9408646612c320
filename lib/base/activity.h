// SPDX-License-Identifier: Apache-2.0
// What a rank is doing: the calls that it has entered and how far each has come. Written by the
// thread that drives the engine, for a few plain stores per call; read by other threads and, where
// the memory is shared, by other processes, also after the writer's death.
//
// Thread safety: begin(), advance() and end() by one thread, everything else by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "echelon/echelon.h"

namespace echelon {

// What the caller asked for, in which all ranks must agree.
struct Signature {
  enum Kind : std::uint8_t { kCollective, kDestroy, kSplit, kStatistics, kMany, kTimeline, kPlan };
  Kind kind = kCollective;
  std::uint8_t collective = ECH_BARRIER;
  std::uint8_t dtype = ECH_UINT8;
  std::uint8_t op = ECH_SUM;
  bool cuda = false;  // the buffers lie in the memory of GPUs
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::uint16_t buffers = 0;  // of kMany: how many
  std::uint16_t digest = 0;   // and of their counts and factors

  bool operator==(const Signature&) const = default;
  bool is_valid() const;                            // false for numbers that name nothing
  std::uint16_t fingerprint() const;                // differs, as a rule, where they do
  std::string name() const;                         // "allreduce", "destroy"
  std::string label(std::uint64_t sequence) const;  // "allreduce #17"
};

// In what `mine` differs from `theirs`: "count 2048", "type f32 and root 3".
std::string difference(const Signature& mine, const Signature& theirs);

struct EnteredCall {
  std::uint64_t sequence = 0;
  Signature signature;
  bool running = false;
  std::uint32_t segments = 1, ended = 0;
};

// A reading of it.
struct Snapshot {
  std::uint64_t entered = 0;       // calls so far
  std::vector<EnteredCall> calls;  // the last ones, in order

  const EnteredCall* find(std::uint64_t sequence) const;
  const EnteredCall* oldest_running() const;  // nullptr: outside any call
  std::string text() const;  // "in allreduce #17, segment 4 of 9"; "outside any call, last in ..."
};

// One reading of two that share their numbers.
Snapshot merged(Snapshot one, const Snapshot& other);

std::string encode_snapshot(const Snapshot& snapshot);
Snapshot decode_snapshot(std::string_view bytes);  // throws ECH_ERR_INTERNAL

class Activity {
 public:
  static constexpr std::size_t kBytes = 4096;  // of a board

  // On `board`, kBytes of zeroed memory aligned to 8 bytes that outlive this object, or when it is
  // empty on memory of its own.
  explicit Activity(std::span<std::byte> board = {});

  void begin(std::uint64_t sequence, const Signature& signature, std::uint32_t segments = 1);
  void plan(std::uint64_t sequence, std::uint32_t segments);  // known only after it has begun
  void advance(std::uint64_t sequence, std::uint32_t ended);
  void end(std::uint64_t sequence);

  Snapshot read() const { return read(board_); }
  static Snapshot read(std::span<const std::byte> board);

 private:
  struct Entry;
  Entry& entry(std::uint64_t sequence);

  std::unique_ptr<std::byte[]> own_;
  std::span<std::byte> board_;
};

}  // namespace echelon
