// SPDX-License-Identifier: Apache-2.0
// What MPI's types and operations are to Echelon, and what is known of data of any type.
#pragma once

#include <echelon/echelon.h>
#include <mpi.h>

#include <cstddef>
#include <optional>

namespace echelon::dropin {

// Of predefined types only; nothing for those that Echelon does not add.
std::optional<ech_dtype> dtype_of(MPI_Datatype type);

// MPI_SUM, MPI_PROD, MPI_MIN and MPI_MAX; nothing for others, the user's own among them.
std::optional<ech_op> op_of(MPI_Op op);

std::size_t size_of(ech_dtype dtype);

// Bytes of `count` elements: what the signature says, the same on every rank of a correct call.
// Nothing when MPI would refuse the arguments, or where it is 0 or more than an int holds.
std::optional<std::size_t> signature_bytes(int count, MPI_Datatype type);

// Whether its elements lie in memory as they do in a message, one after the other.
bool is_dense(MPI_Datatype type);

}  // namespace echelon::dropin
