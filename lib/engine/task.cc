// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/task.h"

#include <algorithm>

#include "lib/base/dtype.h"

namespace echelon {
namespace {

// Of the caller's input and output, once where they are one; 0 where one call does it all.
std::size_t buffer_bytes(const Task& task) {
  if (task.program->one_call && segments_of(task) == 1) return 0;
  const std::size_t block = task.count * size_of(task.dtype);
  const std::size_t in = task.goal.collective == ECH_ALLGATHER ? block : task.bytes;
  const std::size_t out = task.goal.collective == ECH_REDUCE_SCATTER ? block : task.bytes;
  if (task.input == task.output) return std::max(in, out);
  return task.output == nullptr ? in : in + out;
}

}  // namespace

SegmentWork segment_work(const Task& task, std::size_t begin, std::size_t end) {
  const Program& program = *task.program;
  SegmentWork work;
  work.program = &program;
  work.dtype = task.dtype;
  work.op = task.op;
  work.buffers = buffer_bytes(task);
  work.fingerprint = task.signature.fingerprint();
  work.metered = task.metered && program.copies_tell;
  work.result = result_of(task.goal, program.units);
  if (task.op == ECH_AVG) work.divisor = task.goal.size;

  const std::size_t element = size_of(task.dtype);
  const std::size_t stride = task.count * element;
  View& view = work.view;
  view.block_units = program.units / program.blocks;
  view.elements = end - begin;
  view.element_size = element;
  if (task.list) {
    work.list = task.list.get();
    work.list_begin = begin;
    return work;
  }
  const bool one_block_in = task.goal.collective == ECH_ALLGATHER;
  const bool one_block_out = task.goal.collective == ECH_REDUCE_SCATTER;
  view.input = {task.input + begin * element, one_block_in ? 0 : stride};
  if (task.output != nullptr)
    view.work = {task.output + begin * element, one_block_out ? 0 : stride};
  return work;
}

bool needs_scratch(const Task& task) {
  return !task.list && task.program->needs_scratch(task.output != nullptr);
}

std::size_t segments_of(const Task& task) { return (task.count + task.segment - 1) / task.segment; }

GroupPart block_of(const Task& task, const Part& part) {
  const std::size_t bytes = task.count * size_of(task.dtype);
  const bool first = part.slice.begin == 0;  // mostly, and a division takes a while
  const std::size_t at = first ? 0 : part.slice.begin / part.slice.size() * bytes;
  const bool blocks_in = task.goal.collective == ECH_REDUCE_SCATTER;
  const bool blocks_out = task.goal.collective == ECH_ALLGATHER;
  return {blocks_in ? at : 0, blocks_out ? at : 0, bytes, part.owner};
}

OperationRecord record_of(const Task& task, std::uint64_t sequence) {
  OperationRecord record;
  record.ended = nanoseconds(std::chrono::steady_clock::now());
  record.sequence = sequence;
  record.signature = task.signature;
  record.bytes = task.bytes;
  record.elements = task.count;
  record.program = task.program;
  record.name = task.name;
  record.element_size = static_cast<std::uint8_t>(size_of(task.dtype));
  return record;
}

}  // namespace echelon
