// SPDX-License-Identifier: Apache-2.0
// Calls on the shared memory of a host, with buffers of their own.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tools/tune/host_group.h"
#include "transports/group.h"

namespace echelon::tune {

enum class Kind { kAllreduce, kReduceScatter, kAllgather, kBroadcast };

class HostCalls {
 public:
  // Calls of at most `largest` bytes. `shared`: buffers as ech_alloc gives them. Throws
  // perf::Failure where there is not so much memory.
  HostCalls(std::size_t largest, bool shared);

  // Makes so many calls of `bytes` in all, f32 sums, of which each member owns a like part. Seconds
  // per call. Blocks; collective over the group, whose members begin together.
  double sample(HostGroup& group, Kind kind, std::size_t bytes, int calls) const;

 private:
  using Memory = std::unique_ptr<void, void (*)(void*)>;
  static Memory zeros(std::size_t bytes, bool shared);

  const Memory input_, output_;
};

}  // namespace echelon::tune
