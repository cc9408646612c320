// SPDX-License-Identifier: Apache-2.0
#include "mpi/types.h"

#include <climits>
#include <span>

namespace echelon::dropin {
namespace {

enum class Kind { kSigned, kUnsigned, kFloat };

struct KnownType {
  MPI_Datatype type;
  Kind kind;
};

// Fortran's have the size that the MPI library was built with: it is asked for.
std::span<const KnownType> known_types() {
  static const KnownType types[] = {{MPI_DOUBLE, Kind::kFloat},
                                    {MPI_FLOAT, Kind::kFloat},
                                    {MPI_INT, Kind::kSigned},
                                    {MPI_LONG, Kind::kSigned},
                                    {MPI_UNSIGNED, Kind::kUnsigned},
                                    {MPI_UNSIGNED_LONG, Kind::kUnsigned},
                                    {MPI_LONG_LONG, Kind::kSigned},
                                    {MPI_UNSIGNED_LONG_LONG, Kind::kUnsigned},
                                    {MPI_INT8_T, Kind::kSigned},
                                    {MPI_UINT8_T, Kind::kUnsigned},
                                    {MPI_INT32_T, Kind::kSigned},
                                    {MPI_UINT32_T, Kind::kUnsigned},
                                    {MPI_INT64_T, Kind::kSigned},
                                    {MPI_UINT64_T, Kind::kUnsigned},
                                    {MPI_SIGNED_CHAR, Kind::kSigned},
                                    {MPI_UNSIGNED_CHAR, Kind::kUnsigned},
                                    {MPI_AINT, Kind::kSigned},
                                    {MPI_OFFSET, Kind::kSigned},
                                    {MPI_COUNT, Kind::kSigned},
                                    {MPI_INTEGER, Kind::kSigned},
                                    {MPI_INTEGER1, Kind::kSigned},
                                    {MPI_INTEGER4, Kind::kSigned},
                                    {MPI_INTEGER8, Kind::kSigned},
                                    {MPI_REAL, Kind::kFloat},
                                    {MPI_REAL4, Kind::kFloat},
                                    {MPI_REAL8, Kind::kFloat},
                                    {MPI_DOUBLE_PRECISION, Kind::kFloat}};
  return types;
}

std::optional<ech_dtype> dtype_with(Kind kind, int bytes) {
  if (kind == Kind::kFloat && bytes == 4) return ECH_FLOAT32;
  if (kind == Kind::kFloat && bytes == 8) return ECH_FLOAT64;
  if (kind == Kind::kFloat) return std::nullopt;
  const bool is_signed = kind == Kind::kSigned;
  if (bytes == 1) return is_signed ? ECH_INT8 : ECH_UINT8;
  if (bytes == 4) return is_signed ? ECH_INT32 : ECH_UINT32;
  if (bytes == 8) return is_signed ? ECH_INT64 : ECH_UINT64;
  return std::nullopt;
}

}  // namespace

std::optional<ech_dtype> dtype_of(MPI_Datatype type) {
  for (const KnownType& known : known_types()) {
    if (known.type != type) continue;
    int bytes = 0;
    PMPI_Type_size(type, &bytes);
    return dtype_with(known.kind, bytes);
  }
  return std::nullopt;
}

std::optional<ech_op> op_of(MPI_Op op) {
  if (op == MPI_SUM) return ECH_SUM;
  if (op == MPI_MAX) return ECH_MAX;
  if (op == MPI_MIN) return ECH_MIN;
  if (op == MPI_PROD) return ECH_PROD;
  return std::nullopt;
}

std::size_t size_of(ech_dtype dtype) {
  switch (dtype) {
    case ECH_INT8:
    case ECH_UINT8:
      return 1;
    case ECH_FLOAT16:
    case ECH_BFLOAT16:
      return 2;
    case ECH_INT32:
    case ECH_UINT32:
    case ECH_FLOAT32:
      return 4;
    default:
      return 8;
  }
}

std::optional<std::size_t> signature_bytes(int count, MPI_Datatype type) {
  if (count <= 0 || type == MPI_DATATYPE_NULL || type == nullptr) return std::nullopt;
  MPI_Count size = 0;
  if (PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size <= 0) return std::nullopt;
  if (size > INT_MAX / count) return std::nullopt;
  return static_cast<std::size_t>(size) * static_cast<std::size_t>(count);
}

bool is_dense(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  if (combiner != MPI_COMBINER_NAMED) return false;
  MPI_Aint low = 0, extent = 0;
  int size = 0;
  PMPI_Type_get_extent(type, &low, &extent);
  PMPI_Type_size(type, &size);
  return low == 0 && extent == size;
}

}  // namespace echelon::dropin
