// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/quantity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>

namespace echelon {
namespace {

struct Unit {
  std::string_view name;
  double factor;
  double divisor = 1;  // 1e-6 is not exact, 1e6 is

  double in(double value) const { return value * divisor / factor; }
  double of(double number) const { return number * factor / divisor; }
};

// The order matters for writing: the first unit that gives a short number is taken.
constexpr Unit kBandwidth[] = {{"gbit/s", 1.25e8},
                               {"GB/s", 1e9},
                               {"mbit/s", 1.25e5},
                               {"MB/s", 1e6},
                               {"kbit/s", 125},
                               {"kB/s", 1e3},
                               {"bit/s", 0.125},
                               {"B/s", 1},
                               {"KiB/s", 1024},
                               {"MiB/s", 1024 * 1024},
                               {"GiB/s", 1024.0 * 1024 * 1024},
                               {"Gbit/s", 1.25e8},
                               {"Mbit/s", 1.25e5},
                               {"Kbit/s", 125},
                               {"tbit/s", 1.25e11},
                               {"Tbit/s", 1.25e11},
                               {"TB/s", 1e12}};
constexpr Unit kTime[] = {{"us", 1, 1e6}, {"ns", 1, 1e9}, {"ms", 1, 1e3}, {"s", 1}};
constexpr Unit kSize[] = {{"TiB", 1024.0 * 1024 * 1024 * 1024},
                          {"GiB", 1024.0 * 1024 * 1024},
                          {"MiB", 1024.0 * 1024},
                          {"KiB", 1024},
                          {"B", 1}};

std::optional<double> parse(std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  for (const Unit& unit : units)
    if (unit.name == text) return unit.of(value);
  return {};
}

// In the first unit whose number is short and parses back exactly, else in `exact`.
std::string format(double value, std::span<const Unit> units, const Unit& exact) {
  for (const Unit& unit : units) {
    const std::string text = fmt::format("{} {}", unit.in(value), unit.name);
    if (text.size() <= 12 && parse(text, units) == value) return text;
  }
  return fmt::format("{} {}", exact.in(value), exact.name);
}

// Three digits in the largest unit that leaves at least 1.
std::string show(double value, std::span<const Unit> descending) {
  for (const Unit& unit : descending)
    if (unit.in(value) >= 1) return fmt::format("{:.3g} {}", unit.in(value), unit.name);
  const Unit& least = descending.back();
  return fmt::format("{:.3g} {}", least.in(value), least.name);
}

}  // namespace

std::optional<double> parse_bandwidth(std::string_view text) {
  const std::optional<double> value = parse(text, kBandwidth);
  return value && *value >= 1 && *value <= kMostBytesPerSecond ? value : std::nullopt;
}

std::optional<double> parse_time(std::string_view text) {
  const std::optional<double> value = parse(text, kTime);
  return value && *value > 0 && *value <= kMostSeconds ? value : std::nullopt;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const std::optional<double> value = parse(text, kSize);
  if (!value || *value < 0 || *value > 9e15 || *value != std::floor(*value)) return {};
  return static_cast<std::uint64_t>(*value);
}

std::string format_bandwidth(double bytes_per_second) {
  return format(bytes_per_second, kBandwidth, {"B/s", 1});
}

std::string format_time(double seconds) { return format(seconds, kTime, {"s", 1}); }

std::string format_size(std::uint64_t bytes) {
  for (const Unit& unit : kSize) {
    const auto factor = static_cast<std::uint64_t>(unit.factor);
    if (bytes != 0 && bytes % factor == 0) return fmt::format("{} {}", bytes / factor, unit.name);
  }
  return fmt::format("{} B", bytes);
}

std::string show_bandwidth(double bytes_per_second, bool bits) {
  constexpr Unit kBits[] = {
      {"Tbit/s", 1.25e11}, {"Gbit/s", 1.25e8}, {"Mbit/s", 1.25e5}, {"Kbit/s", 125}};
  constexpr Unit kBytes[] = {{"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}};
  return bits ? show(bytes_per_second, kBits) : show(bytes_per_second, kBytes);
}

std::string show_time(double seconds) {
  constexpr Unit kTimes[] = {{"s", 1}, {"ms", 1, 1e3}, {"us", 1, 1e6}, {"ns", 1, 1e9}};
  return show(seconds, kTimes);
}

}  // namespace echelon
