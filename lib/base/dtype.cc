// SPDX-License-Identifier: Apache-2.0
#include "lib/base/dtype.h"

#include <algorithm>

namespace echelon {
namespace {

struct TypeRow {
  ech_dtype dtype;
  std::string_view name, numpy_name, c_name;
};

constexpr TypeRow kTypes[] = {
    {ECH_INT8, "i8", "int8", "char"},         {ECH_UINT8, "u8", "uint8", "byte"},
    {ECH_INT32, "i32", "int32", "int"},       {ECH_UINT32, "u32", "uint32", "unsigned"},
    {ECH_INT64, "i64", "int64", "long"},      {ECH_UINT64, "u64", "uint64", "size"},
    {ECH_FLOAT16, "f16", "float16", "half"},  {ECH_BFLOAT16, "bf16", "bfloat16", "bfloat"},
    {ECH_FLOAT32, "f32", "float32", "float"}, {ECH_FLOAT64, "f64", "float64", "double"},
};
static_assert(std::ranges::equal(kTypes, kAllTypes, {}, &TypeRow::dtype),
              "a row per type, in order");
constexpr std::string_view kOps[] = {"sum", "prod", "min", "max", "avg"};
constexpr std::string_view kCollectives[] = {"allreduce", "reduce_scatter", "allgather",
                                             "broadcast", "reduce",         "barrier"};

template <typename T, std::size_t N>
std::optional<T> find(const std::string_view (&names)[N], std::string_view text) {
  const auto at = std::find(std::begin(names), std::end(names), text);
  if (at == std::end(names)) return std::nullopt;
  return static_cast<T>(at - std::begin(names));
}

}  // namespace

std::string_view name(ech_dtype dtype) { return kTypes[dtype].name; }
std::string_view name(ech_op op) { return kOps[op]; }
std::string_view name(ech_collective collective) { return kCollectives[collective]; }

std::optional<ech_dtype> parse_dtype(std::string_view text) {
  for (const TypeRow& row : kTypes)
    if (text == row.name || text == row.numpy_name || text == row.c_name) return row.dtype;
  return std::nullopt;
}

std::optional<ech_op> parse_op(std::string_view text) { return find<ech_op>(kOps, text); }

std::optional<ech_collective> parse_collective(std::string_view text) {
  return find<ech_collective>(kCollectives, text);
}

}  // namespace echelon
