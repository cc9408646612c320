// SPDX-License-Identifier: Apache-2.0
// Names of many hosts or devices: "node*" matches, "node[000-127,200]" matches and counts up.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echelon {

// '*' is any text, '?' any one character, [a-b,c] numbers with at least as many digits as written.
// Linear in text x pattern.
bool matches(std::string_view pattern, std::string_view text);

// All names of a pattern without '*' and '?', in order; brackets may occur several times.
// nothing: malformed, not countable, or more than `limit` names.
std::optional<std::vector<std::string>> expand(std::string_view pattern, std::size_t limit);

// What no name has, but a pattern.
inline constexpr std::string_view kOfPatterns = "[]*?";

bool has_wildcard(std::string_view pattern);  // '*' or '?'

}  // namespace echelon
