// SPDX-License-Identifier: Apache-2.0
// The text of a list. fmt::join says the same, but takes seconds to compile wherever it is used.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace echelon {

// Numbers or texts, with `between` between them.
template <typename List>
std::string joined(const List& list, std::string_view between) {
  std::string text;
  bool first = true;
  for (const auto& item : list) {
    if (!first) text += between;
    first = false;
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(item)>>)
      text += std::to_string(item);
    else
      text += item;
  }
  return text;
}

}  // namespace echelon
