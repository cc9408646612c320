// SPDX-License-Identifier: Apache-2.0
// What the GPU kernels are called with. Included by kernels.cu and by the host.
#pragma once

#include <cstddef>

namespace echelon {

// Of one launch. A kernel may have 4 KiB of parameters, but all of them are copied at each launch.
inline constexpr int kMostSources = 64;

struct ReduceArgs {
  std::byte* out;
  std::size_t count;  // elements
  int source_count;   // in [1, kMostSources]
  const std::byte* sources[kMostSources];
};

struct DivideArgs {
  std::byte* data;
  std::size_t count;
  int divisor;  // > 0
};

struct ScaleArgs {
  std::byte* out;
  const std::byte* in;
  std::size_t count;
  double factor;
};

// The threads of a block. Any number of blocks will do: each takes what is its turn.
inline constexpr unsigned kThreadsPerBlock = 256;

}  // namespace echelon
