// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/base/error.h"

namespace echelon {
namespace {

constexpr std::string_view kLeader = "leader:";
constexpr std::string_view kUnits[] = {"", "KiB", "MiB", "GiB"};

Error wrong(std::string_view text, const std::string& why) {
  std::string algorithms;
  for (Algorithm a : kAllAlgorithms)
    algorithms += (algorithms.empty() ? "" : ", ") + std::string(name(a));
  return invalid(fmt::format(
      "plan \"{}\": {}; expected [leader:]algorithm[/algorithm...][@size], algorithm one of {}",
      text, why, algorithms));
}

std::size_t parse_size(std::string_view text, std::string_view whole) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(end - text.data());
  for (int i = 0; i < 4 && error == std::errc(); ++i) {
    const bool fits = number > 0 && number <= (std::size_t{1} << 40) >> (10 * i);
    const bool known = unit == kUnits[i] || (i > 0 && unit == kUnits[i].substr(0, 1));
    if (known && fits) return number << (10 * i);
  }
  throw wrong(whole, fmt::format("\"{}\" is not a segment size such as 512KiB", text));
}

}  // namespace

std::string bytes_text(std::size_t bytes) {
  int unit = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, unit == 0 ? "B" : kUnits[unit]);
}

bool adds_before_it_spreads(const Recipe& recipe) {
  return std::ranges::all_of(recipe.algorithms, [](Algorithm a) {
    return supports(a, GroupAction::kReduceScatter) && supports(a, GroupAction::kAllgather);
  });
}

bool tells_of_links(const Recipe& recipe) {
  return adds_before_it_spreads(recipe) && std::ranges::all_of(recipe.algorithms, [](Algorithm a) {
           return a != Algorithm::kHalvingDoubling && a != Algorithm::kBinomial;
         });
}

std::string to_text(const Recipe& recipe) {
  std::string text(recipe.ownership == Ownership::kLeader ? kLeader : "");
  for (std::size_t i = 0; i < recipe.algorithms.size(); ++i)
    text += (i == 0 ? "" : "/") + std::string(name(recipe.algorithms[i]));
  if (recipe.segment == 0) return text;
  int unit = 0;
  std::size_t number = recipe.segment;
  for (; number % 1024 == 0 && unit < 3; ++unit) number /= 1024;
  return text + fmt::format("@{}{}", number, kUnits[unit]);
}

Recipe parse_recipe(std::string_view text) {
  if (text.size() > kLongestRecipe)
    throw wrong(fmt::format("{} ...", text.substr(0, 32)),
                fmt::format("{} characters; the longest has {}", text.size(), kLongestRecipe));
  Recipe recipe;
  std::string_view rest = text;
  if (rest.starts_with(kLeader)) {
    recipe.ownership = Ownership::kLeader;
    rest.remove_prefix(kLeader.size());
  }
  if (const auto at = rest.find('@'); at != rest.npos) {
    recipe.segment = parse_size(rest.substr(at + 1), text);
    rest = rest.substr(0, at);
  }
  while (true) {
    const auto slash = rest.find('/');
    const std::string_view word = rest.substr(0, slash);
    const auto algorithm = parse_algorithm(word);
    if (!algorithm) throw wrong(text, fmt::format("\"{}\" is no algorithm", word));
    recipe.algorithms.push_back(*algorithm);
    if (slash == rest.npos) return recipe;
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace echelon
