// SPDX-License-Identifier: Apache-2.0
// What reduce.cc needs from an instruction set. plain.cc is there always, for every processor;
// Meson adds either the simd_*.cc files or no_simd.cc.
#pragma once

#include <cstddef>
#include <span>

#include "echelon/echelon.h"

namespace echelon {

// out[i] = op over j of (sources[j] + offset)[i] for i < count; offset is in bytes.
struct ReduceTask {
  std::span<const std::byte* const> sources;  // at least one
  std::size_t offset;
  std::byte* out;
  std::size_t count;
};

// out[i] = in[i] * factor for i < count.
struct ScaleTask {
  std::byte* out;
  const std::byte* in;
  std::size_t count;
  double factor;
};

using ReduceKernel = void (*)(const ReduceTask&);
using DivideKernel = void (*)(std::byte* data, std::size_t count, int divisor);
using ScaleKernel = void (*)(const ScaleTask&);

// Standard C++, no intrinsics. All kernels of one type and operator give the same bits as these.
ReduceKernel plain_reduce(ech_dtype dtype, ech_op op);
DivideKernel plain_divide(ech_dtype dtype);
ScaleKernel plain_scale(ech_dtype dtype);  // null for integers

// The best for this processor.
ReduceKernel integer_reduce(ech_dtype dtype, ech_op op);
ReduceKernel float_reduce(ech_dtype dtype, ech_op op);
DivideKernel float_divide(ech_dtype dtype);
ScaleKernel float_scale(ech_dtype dtype);
const char* simd_target();

// memcpy with stores that bypass the cache, where the processor has them.
void stream_copy(std::byte* out, const std::byte* in, std::size_t bytes);

}  // namespace echelon
