// SPDX-License-Identifier: Apache-2.0
// Stands in for simd_*.cc in builds without Highway.
#include <cstring>

#include "lib/reduce/kernels.h"

namespace echelon {

ReduceKernel integer_reduce(ech_dtype dtype, ech_op op) { return plain_reduce(dtype, op); }
ReduceKernel float_reduce(ech_dtype dtype, ech_op op) { return plain_reduce(dtype, op); }
DivideKernel float_divide(ech_dtype dtype) { return plain_divide(dtype); }
ScaleKernel float_scale(ech_dtype dtype) { return plain_scale(dtype); }
const char* simd_target() { return "plain"; }

void stream_copy(std::byte* out, const std::byte* in, std::size_t bytes) {
  std::memcpy(out, in, bytes);
}

}  // namespace echelon
