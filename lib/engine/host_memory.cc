// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/host_memory.h"

#include "lib/reduce/reduce.h"

namespace echelon {

std::byte* HostMemory::reserve(int lane, Use use, std::size_t bytes) {
  Scratch& scratch = scratch_[2 * static_cast<std::size_t>(lane) + (use == Use::kWork ? 0 : 1)];
  if (bytes > scratch.capacity) {
    scratch.memory.reset();
    scratch.capacity = 0;
    scratch.memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch.capacity = bytes;
  }
  return scratch.memory.get();
}

void HostMemory::copy(int, std::byte* to, const std::byte* from, std::size_t bytes) {
  echelon::copy(to, from, bytes);
}

void HostMemory::reduce(int, const Reduction& work) {
  echelon::reduce(work.dtype, work.op, work.sources, work.out, work.count);
}

void HostMemory::divide(int, const Division& work) {
  echelon::divide(work.dtype, work.data, work.count, work.divisor);
}

void HostMemory::scale(int, const Scaling& work) {
  echelon::scale(work.dtype, work.to, work.from, work.count, work.factor);
}

}  // namespace echelon
