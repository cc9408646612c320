// SPDX-License-Identifier: Apache-2.0
// The words of the C ABI's enumerations, as the program reads and prints them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "echelon/echelon.h"

namespace echelon::perf {

std::size_t size_of(ech_dtype dtype);
std::string_view name(ech_dtype dtype);            // "f32", ...
std::string_view name(ech_op op);                  // "sum", ...
std::string_view name(ech_collective collective);  // "allreduce", ...

bool is_float(ech_dtype dtype);
bool reduces(ech_collective collective);    // has an op
bool has_root(ech_collective collective);   // broadcast and reduce
bool has_parts(ech_collective collective);  // reduce_scatter and allgather: one block per rank

// One word. Throw std::invalid_argument that lists the words there are.
ech_dtype parse_dtype(std::string_view text);
ech_collective parse_collective(std::string_view text);

// "f32", "f32,f64" or "all", likewise for the others. They throw the same.
std::vector<ech_dtype> parse_dtypes(std::string_view text);
std::vector<ech_op> parse_ops(std::string_view text);
std::vector<ech_collective> parse_collectives(std::string_view text);

// The words there are, for people: "allreduce, reduce_scatter, ...".
std::string dtype_words();
std::string op_words();
std::string collective_words();

// "8", "64K", "64KiB", "1.5M", "2g": powers of 1024. Nothing when it is not a size below 2^50.
std::optional<std::size_t> parse_bytes(std::string_view text);
// The same, but throws std::invalid_argument.
std::size_t required_bytes(std::string_view text);
std::string bytes_text(std::size_t bytes);  // "8 B", "64 KiB"

}  // namespace echelon::perf
