// SPDX-License-Identifier: Apache-2.0
// Options that are more than CLI11 knows: their texts are parsed by functions of ours, and what
// those throw becomes a usage error of one line.
#pragma once

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <charconv>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace echelon::tools {

// `parse` turns the option's text into `target`; it throws std::invalid_argument.
template <typename T>
CLI::Option* add_parsed(CLI::App& app, const std::string& names, T& target,
                        std::function<T(const std::string&)> parse) {
  const std::string shown = names.substr(0, names.find(',', names.find(',') + 1));
  return app.add_option_function<std::string>(names,
                                              [&target, parse, shown](const std::string& text) {
                                                try {
                                                  target = parse(text);
                                                } catch (const std::invalid_argument& e) {
                                                  throw CLI::ValidationError(shown, e.what());
                                                }
                                              });
}

template <typename T>
using Choices = std::initializer_list<std::pair<std::string_view, T>>;

// What one of several words stands for.
template <typename T>
std::function<T(const std::string&)> one_of(Choices<T> list) {
  return [choices = std::vector(list)](const std::string& text) {
    std::string words;
    for (const auto& [word, value] : choices) {
      if (text == word) return value;
      words += fmt::format("{}{}", words.empty() ? "" : ", ", word);
    }
    throw std::invalid_argument(fmt::format("\"{}\" is none of {}", text, words));
  };
}

inline double parse_seconds(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value <= 0)
    throw std::invalid_argument(fmt::format("\"{}\" is no number of seconds > 0", text));
  return value;
}

}  // namespace echelon::tools
