// SPDX-License-Identifier: Apache-2.0
// Memory that the other ranks of a host can map: what is behind ech_alloc. Each allocation is a
// memfd of its own, so nothing is left behind, and other ranks reach it through /proc. Its size is
// sealed and its name holds its id, so that who maps it knows what it has.
//
// Thread safety: all functions from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/base/fd.h"

namespace echelon {

// Page-aligned, zeroed, readable and writable. Never NULL; zero bytes give one page.
// Throws ECH_ERR_NO_MEMORY, ECH_ERR_SYSTEM.
void* shared_alloc(std::size_t bytes);

// Frees what shared_alloc() returned; NULL is allowed. Throws ECH_ERR_INVALID for other pointers.
void shared_free(void* memory);

struct SharedRange {
  int fd;              // of the allocation; stays open until it is freed
  std::uint64_t id;    // unlike that of any other allocation of this process, ever; above 1
  std::size_t offset;  // of the range in the allocation
};

// The allocation that holds all of [data, data + bytes), if there is one. Cheap when there are
// no allocations at all.
std::optional<SharedRange> find_shared(const void* data, std::size_t bytes);

// The size of what `file` refers to, when that is the allocation with this id of some process: none
// of its pages faults, whatever its owner does. Else nothing.
std::optional<std::size_t> shared_size(const Fd& file, std::uint64_t id);

}  // namespace echelon
