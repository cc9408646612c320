// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace echelon {
namespace {

constexpr std::size_t kMostDigits = 9;

bool is_digits(std::string_view text) {
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

unsigned to_number(std::string_view digits) {
  unsigned value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

struct Range {
  unsigned first, last;
  std::size_t width;  // at least so many digits
};

std::optional<Range> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  if (!is_digits(first) || !is_digits(last)) return {};
  const Range range{to_number(first), to_number(last), first.size()};
  return range.first <= range.last ? std::optional(range) : std::nullopt;
}

// "0-3,8" to ranges.
std::optional<std::vector<Range>> parse_ranges(std::string_view text) {
  std::vector<Range> ranges;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::optional<Range> range = parse_range(text.substr(0, comma));
    if (!range) return {};
    ranges.push_back(*range);
    if (comma == std::string_view::npos) return ranges;
    text.remove_prefix(comma + 1);
  }
}

// A pattern is a list of pieces: literal text or wildcard, each followed by optional ranges.
struct Piece {
  char wildcard = 0;  // '*', '?' or 0
  std::string literal;
  std::vector<Range> ranges;
};

std::optional<std::vector<Piece>> parse(std::string_view pattern) {
  std::vector<Piece> pieces;
  while (!pattern.empty()) {
    const char c = pattern[0];
    if (c == '[') {
      const std::size_t close = pattern.find(']');
      if (close == std::string_view::npos) return {};
      std::optional<std::vector<Range>> ranges = parse_ranges(pattern.substr(1, close - 1));
      if (!ranges) return {};
      pieces.push_back({0, "", std::move(*ranges)});
      pattern.remove_prefix(close + 1);
      continue;
    }
    if (c == '*' || c == '?')
      pieces.push_back({c, "", {}});
    else
      pieces.push_back({0, std::string(1, c), {}});
    pattern.remove_prefix(1);
  }
  return pieces;
}

bool in_ranges(const std::vector<Range>& ranges, std::string_view digits) {
  if (!is_digits(digits)) return false;
  const unsigned value = to_number(digits);
  for (const Range& r : ranges) {
    const std::size_t width = std::max(r.width, fmt::formatted_size("{}", value));
    if (r.first <= value && value <= r.last && digits.size() == width) return true;
  }
  return false;
}

// reach[i]: the pieces so far match text[0, i). Returns the same after one more piece.
std::vector<bool> advance(const Piece& piece, std::string_view text, const std::vector<bool>& at) {
  std::vector<bool> next(at.size());
  bool any = false;
  for (std::size_t i = 0; i < at.size(); ++i) {
    any = any || at[i];
    if (piece.wildcard == '*') next[i] = any;
    if (!at[i]) continue;
    const bool fits = i < text.size();
    if (piece.wildcard == '?' && fits) next[i + 1] = true;
    if (!piece.literal.empty() && fits && text[i] == piece.literal[0]) next[i + 1] = true;
    for (std::size_t n = 1; !piece.ranges.empty() && n <= kMostDigits && i + n <= text.size(); ++n)
      if (in_ranges(piece.ranges, text.substr(i, n))) next[i + n] = true;
  }
  return next;
}

}  // namespace

bool has_wildcard(std::string_view pattern) {
  return pattern.find_first_of("*?") != std::string_view::npos;
}

bool matches(std::string_view pattern, std::string_view text) {
  const std::optional<std::vector<Piece>> pieces = parse(pattern);
  if (!pieces) return false;
  std::vector<bool> at(text.size() + 1);
  at[0] = true;
  for (const Piece& piece : *pieces) at = advance(piece, text, at);
  return at[text.size()];
}

std::optional<std::vector<std::string>> expand(std::string_view pattern, std::size_t limit) {
  const std::optional<std::vector<Piece>> pieces = parse(pattern);
  if (!pieces || has_wildcard(pattern)) return {};
  std::vector<std::string> names{""};
  for (const Piece& piece : *pieces) {
    if (piece.ranges.empty()) {
      for (std::string& name : names) name += piece.literal;
      continue;
    }
    std::size_t count = 0;
    for (const Range& r : piece.ranges) count += std::size_t{r.last - r.first} + 1;
    if (count > limit / names.size()) return {};
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (const Range& r : piece.ranges)
        for (unsigned i = r.first; i <= r.last; ++i)
          longer.push_back(fmt::format("{}{:0{}}", name, i, r.width));
    names = std::move(longer);
  }
  return names;
}

}  // namespace echelon
