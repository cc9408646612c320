// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>
#include <stdexcept>

namespace echelon::perf {
namespace {

constexpr std::string_view kTypes[] = {"i8",  "u8",  "i32",  "u32", "i64",
                                       "u64", "f16", "bf16", "f32", "f64"};
constexpr std::size_t kTypeSizes[] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8};
constexpr std::string_view kOps[] = {"sum", "prod", "min", "max", "avg"};
constexpr std::string_view kCollectives[] = {"allreduce", "reduce_scatter", "allgather",
                                             "broadcast", "reduce",         "barrier"};

// Other spellings in use, by type number.
constexpr std::pair<std::string_view, ech_dtype> kOtherTypes[] = {
    {"int8", ECH_INT8},       {"uint8", ECH_UINT8},     {"int32", ECH_INT32},
    {"uint32", ECH_UINT32},   {"int64", ECH_INT64},     {"uint64", ECH_UINT64},
    {"half", ECH_FLOAT16},    {"float16", ECH_FLOAT16}, {"bfloat16", ECH_BFLOAT16},
    {"float", ECH_FLOAT32},   {"float32", ECH_FLOAT32}, {"double", ECH_FLOAT64},
    {"float64", ECH_FLOAT64}, {"bfloat", ECH_BFLOAT16}};

template <typename T>
T word(std::span<const std::string_view> words, std::string_view text) {
  const auto at = std::ranges::find(words, text);
  if (at == words.end())
    throw std::invalid_argument(fmt::format("\"{}\" is none of {}", text, fmt::join(words, ", ")));
  return static_cast<T>(at - words.begin());
}

template <typename One>
auto list(std::string_view text, std::size_t count, One one) {
  using T = decltype(one(text));
  std::vector<T> all;
  if (text == "all") {
    for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<T>(i));
    return all;
  }
  try {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      all.push_back(one(text.substr(begin, end - begin)));
      begin = end + 1;
    }
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(std::string(e.what()) + ", all");
  }
  return all;
}

// 0, 10, 20, 30 or 40; nothing for other units.
std::optional<int> unit_shift(std::string_view unit) {
  constexpr std::string_view kUnits = "BKMGT";
  if (unit.empty()) return 0;
  const char first = static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front())));
  const std::size_t at = kUnits.find(first);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = unit.substr(1);
  if (!rest.empty() && (at == 0 || (rest != "B" && rest != "iB" && rest != "b"))) return {};
  return static_cast<int>(10 * at);
}

}  // namespace

std::size_t size_of(ech_dtype dtype) { return kTypeSizes[dtype]; }
std::string_view name(ech_dtype dtype) { return kTypes[dtype]; }
std::string_view name(ech_op op) { return kOps[op]; }
std::string_view name(ech_collective collective) { return kCollectives[collective]; }

bool is_float(ech_dtype dtype) { return dtype >= ECH_FLOAT16; }

bool reduces(ech_collective collective) {
  return collective == ECH_ALLREDUCE || collective == ECH_REDUCE_SCATTER ||
         collective == ECH_REDUCE;
}

bool has_root(ech_collective collective) {
  return collective == ECH_BROADCAST || collective == ECH_REDUCE;
}

bool has_parts(ech_collective collective) {
  return collective == ECH_REDUCE_SCATTER || collective == ECH_ALLGATHER;
}

ech_dtype parse_dtype(std::string_view text) {
  for (const auto& [other, type] : kOtherTypes)
    if (text == other) return type;
  return word<ech_dtype>(kTypes, text);
}

ech_collective parse_collective(std::string_view text) {
  return word<ech_collective>(kCollectives, text);
}

std::vector<ech_dtype> parse_dtypes(std::string_view text) {
  return list(text, std::size(kTypes), parse_dtype);
}

std::vector<ech_op> parse_ops(std::string_view text) {
  return list(text, std::size(kOps), [](std::string_view one) { return word<ech_op>(kOps, one); });
}

std::vector<ech_collective> parse_collectives(std::string_view text) {
  return list(text, std::size(kCollectives), parse_collective);
}

std::string dtype_words() { return fmt::format("{}", fmt::join(kTypes, ", ")); }
std::string op_words() { return fmt::format("{}", fmt::join(kOps, ", ")); }
std::string collective_words() { return fmt::format("{}", fmt::join(kCollectives, ", ")); }

std::optional<std::size_t> parse_bytes(std::string_view text) {
  double number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return {};
  const std::optional<int> shift = unit_shift({end, last});
  if (!shift) return {};
  const double bytes = number * static_cast<double>(std::size_t{1} << *shift);
  const auto whole = static_cast<std::size_t>(std::min(bytes, 0x1p50));
  if (whole >= std::size_t{1} << 50 || static_cast<double>(whole) != bytes) return {};
  return whole;
}

std::size_t required_bytes(std::string_view text) {
  if (const auto value = parse_bytes(text)) return *value;
  throw std::invalid_argument(fmt::format("\"{}\" is no size; expected such as 8, 64K, 1M", text));
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

}  // namespace echelon::perf
