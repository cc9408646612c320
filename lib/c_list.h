// SPDX-License-Identifier: Apache-2.0
// How the functions of the C ABI read a list of buffers. Throws Error.
#pragma once

#include "lib/c_handles.h"

namespace echelon {

// What ech_allreduce_many is called with.
struct GivenList {
  const void* const* send;
  void* const* recv;
  const std::size_t* counts;
  std::size_t buffers;
  ech_dtype dtype;
  ech_op op;
  double prescale, postscale;
  const ech_comm* comm;
};

// The allreduce of them, with everything checked; see c_check.h.
Invocation read_list(const GivenList& given);

}  // namespace echelon
