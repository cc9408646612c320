// SPDX-License-Identifier: Apache-2.0
// One rank's part of a schedule, ready to run: a list of instructions per step.
//
// A rank has two buffers of the same shape: `input`, never written, and `work`, where the result
// grows. A slice lives in the input until something is first written over it; the program knows
// at every step which of the two holds a slice, so that the input is never copied as a whole.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/schedule/schedule.h"

namespace echelon {

enum class Place : std::uint8_t { kInput, kWork };

// One message. `ordinal` counts the messages of the program's schedule between the two ranks in
// one direction, so that both ends name it alike.
struct Hop {
  int peer;
  Slice slice;
  std::uint32_t ordinal;
  Place place;          // of the bytes to send
  bool copies = false;  // where it arrives it is not added to anything
};

// Messages that are reduced together with this rank's own operand into one slice of work, in order
// of rank, so that every rank that adds the same operands gets the same bits.
struct Merge {
  Slice slice;
  Place own;                 // where this rank's operand is
  bool after_sends;          // a send of the same step reads the slice
  std::uint32_t begin, end;  // Step::incoming, ordered by peer
  std::uint32_t own_index;   // how many of them come from lower ranks
};

// Of the group that this rank is in. Members go by their index there, not by rank.
struct Call {
  GroupAction action;
  int self;  // this rank
  int members;
  std::vector<Part> parts;  // with members as owners
  Place place;              // of this rank's input
};

// In order: copies from input to work; then everything else at once.
struct Step {
  static constexpr std::int16_t kNoPhase = -1;  // it only copies what is this rank's own

  std::int16_t phase = kNoPhase;  // in Program::phases
  std::vector<Slice> local_copies;
  std::vector<Hop> sends;
  std::vector<Hop> receives;  // straight into work
  std::vector<Hop> incoming;  // into scratch memory, for `merges`
  std::vector<Merge> merges;
  std::vector<Call> calls;
};

struct Program {
  Unit units = 1;
  Unit blocks = 1;  // units are divided into this many equal blocks
  std::vector<Step> steps;
  bool writes_work = false;             // in steps, beside copies of its own input to a result
  bool work_outside_own_block = false;  // something is written to work that is not the result
  bool needs_messages = false;
  std::uint32_t calls = 0;  // of the group, in all steps; alike on all its members
  bool one_call = false;    // nothing but one group call, whose parts are whole blocks
  // What is copied, and not added up, has been added up by all ranks: whoever sends it knows that
  // they take part, so it tells how fast the links are. Set by who knows the plan.
  bool copies_tell = false;
  // Ranks mostly wait for the network: they sleep soon, and nap. Set by who knows the plan.
  bool waits_for_network = false;
  // Then, of the network for one of its messages; and what a segment takes at least, of several
  // under way, where links are no quicker than the plan believes.
  std::chrono::nanoseconds message_time{}, segment_time{};
  // Segments that may be under way at once, also of several operations; 0: one per lane. The fewer,
  // the more of what they touch stays in caches. The same on all ranks. Set by who knows the plan.
  std::uint32_t under_way = 0;
  // For people.
  std::vector<Phase> phases;  // of the schedule, whose steps they count
  std::string plan;           // the recipe; set by who knows it

  // Whether a rank needs memory besides its output, if it has one, to grow the result in.
  bool needs_scratch(bool has_output) const {
    return writes_work && (!has_output || work_outside_own_block);
  }
};

// What a program shall compute.
struct Goal {
  ech_collective collective;
  int rank;
  int size;
  int root;
};

// The part of `schedule` that goal.rank runs. With `split_blocks` no message and no part spans
// two blocks (reduce_scatter and allgather in several segments, where blocks are not adjacent).
Program compile(const Schedule& schedule, const Goal& goal, bool split_blocks);

// The slice that `goal` leaves to this rank; empty when it gets nothing.
Slice result_of(const Goal& goal, Unit units);

}  // namespace echelon
