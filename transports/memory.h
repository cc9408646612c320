// SPDX-License-Identifier: Apache-2.0
// Where the buffers of operations lie, and who computes on them: the CPU on host memory, a GPU on
// its own.
//
// A memory has lanes, like a group engine. What is given to one lane is done in that order; lanes
// are independent of each other. The host does it at once, a GPU on a stream.
//
// Thread safety: one thread at a time. Nothing blocks but reserve() and settle().
#pragma once

#include <cstddef>
#include <span>

#include "echelon/echelon.h"
#include "transports/waitable.h"

namespace echelon {

// out[i] = op over sources of source[i], i < count, in the order of the sources. `out` may be one
// of them. 16-bit types accumulate in float32 over all sources. ECH_AVG adds like ECH_SUM.
struct Reduction {
  ech_dtype dtype = ECH_UINT8;
  ech_op op = ECH_SUM;
  std::span<const std::byte* const> sources;  // read before reduce() returns
  std::byte* out = nullptr;
  std::size_t count = 0;
};

// data[i] = data[i] / divisor, i < count, as echelon::divide() does it.
struct Division {
  ech_dtype dtype = ECH_UINT8;
  std::byte* data = nullptr;
  std::size_t count = 0;
  int divisor = 1;
};

// to[i] = from[i] * factor, i < count, of a floating type, as echelon::scale() does it.
struct Scaling {
  ech_dtype dtype = ECH_FLOAT32;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // may be `to`
  std::size_t count = 0;
  double factor = 1;
};

class Memory {
 public:
  virtual ~Memory() = default;

  // What memory beyond the caller's is for.
  enum class Use {
    kWork,      // intermediate results: where this memory's own engine computes fastest
    kIncoming,  // messages to be reduced: where the transport can put them and reduce() read them
  };

  // At least `bytes` of memory of the lane's own, aligned for every type. Stays the same until
  // more is asked for; its contents are lost then. Nothing may be under way on the lane.
  // Throws ECH_ERR_NO_MEMORY.
  virtual std::byte* reserve(int lane, Use use, std::size_t bytes) = 0;

  // Start; may already be done when they return. What they name stays in place until done().
  virtual void copy(int lane, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void reduce(int lane, const Reduction& work) = 0;
  virtual void divide(int lane, const Division& work) = 0;
  virtual void scale(int lane, const Scaling& work) = 0;

  // Whether everything that was given to the lane is done. Throws when it cannot be.
  virtual bool done(int lane) = 0;

  // Blocks until nothing is under way on any lane any more, whether it succeeded or not.
  virtual void settle() noexcept = 0;

  // What to sleep on while a lane is not done; null where work is done at once.
  virtual Waitable* news() = 0;
};

}  // namespace echelon
