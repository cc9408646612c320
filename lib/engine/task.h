// SPDX-License-Identifier: Apache-2.0
// A collective that the engine is asked for, and what follows from that alone: its segments, or the
// parts of its only call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/engine/buffer_list.h"
#include "lib/engine/program.h"
#include "lib/engine/recorder.h"
#include "lib/engine/segment.h"
#include "transports/group.h"

namespace echelon {

// One collective as the caller asked for it, validated, with the program that does it.
struct Task {
  const Program* program = nullptr;  // outlives the operation; null: the planner is asked for it
  Goal goal{};
  ech_dtype dtype = ECH_UINT8;
  ech_op op = ECH_SUM;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;                       // nullptr where the goal leaves nothing
  std::shared_ptr<const BufferList> list = nullptr;  // of an allreduce, instead of input and output
  std::size_t count = 0;                             // elements per block, > 0
  std::size_t bytes = 0;                             // of all blocks: what plans go by
  std::size_t segment = 0;  // elements per block of one segment, > 0 with a program
  std::chrono::nanoseconds timeout{};
  Signature signature;     // what the caller asked for
  bool metered = false;    // alike on all ranks: its large messages tell how fast links are
  bool timed = false;      // whoever waits for it notes how long
  std::uint32_t name = 0;  // for the recorder: by which the caller calls it
};

// The part of `task` that runs in elements [begin, end) of every block.
SegmentWork segment_work(const Task& task, std::size_t begin, std::size_t end);

std::size_t segments_of(const Task& task);

// Whether the steps need memory that is not the caller's.
bool needs_scratch(const Task& task);

// A part of the only call, which is a block: the buffer, where it has no blocks.
GroupPart block_of(const Task& task, const Part& part);

// Of one that ends now.
OperationRecord record_of(const Task& task, std::uint64_t sequence);

}  // namespace echelon
