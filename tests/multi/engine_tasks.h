// SPDX-License-Identifier: Apache-2.0
// Tasks for an engine, in place on numbers of a test.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "lib/engine/engine.h"

namespace echelon::test {

using Value = std::int64_t;

// How the engine does it; without a program it has to ask for its plan.
struct Way {
  const Program* program = nullptr;
  std::size_t segment = 0;  // elements
};

inline Task task_on(std::span<Value> data, const Goal& goal, const Way& way = {}) {
  Task task;
  task.program = way.program;
  task.segment = way.segment;
  task.goal = goal;
  task.dtype = ECH_INT64;
  task.output = reinterpret_cast<std::byte*>(data.data());
  task.input = task.output;
  task.count = data.size();
  task.timeout = std::chrono::seconds(100);  // a loaded machine takes its time
  return task;
}

}  // namespace echelon::test
