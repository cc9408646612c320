// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

namespace echelon::perf {
namespace {

using Json = nlohmann::json;

constexpr double kSlow = 100e6, kLate = 1e-3;  // bytes/s and s, within one host
constexpr double kFarBelow = 0.5;

// "12.5 MB/s" in bytes/s, "3 us" in s; 0 for anything else.
double quantity(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"B/s", 1},      {"kB/s", 1e3},   {"MB/s", 1e6},     {"GB/s", 1e9},     {"TB/s", 1e12},
      {"bit/s", .125}, {"kbit/s", 125}, {"mbit/s", 125e3}, {"gbit/s", 125e6}, {"tbit/s", 125e9},
      {"ns", 1e-9},    {"us", 1e-6},    {"ms", 1e-3},      {"s", 1}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  const std::string_view unit = std::string_view(text).substr(end - text.data());
  for (const auto& [word, factor] : kUnits)
    if (unit.ends_with(word) && unit.size() == word.size() + 1) return value * factor;
  return 0;
}

double measured(const Json& link, const std::string& key) {
  if (link.value(key + "_source", "") != "measured") return 0;
  return quantity(link.value(key, ""));
}

}  // namespace

std::string doubts_about_links(const std::string& fabric_json) {
  const Json fabric = Json::parse(fabric_json, nullptr, false);
  if (!fabric.is_object()) return "";
  const Json host = fabric.value("tier", Json::object()).value("host", Json::object());
  const double speed = measured(host, "bandwidth"), latency = measured(host, "latency");
  if ((speed == 0 || speed >= kSlow) && latency <= kLate) return "";
  return fmt::format(
      "note: at their start the ranks of a host measured {:.4g} MB/s and {:.4g} us between them: "
      "the machine was busy, and what is predicted from that is too slow\n",
      speed / 1e6, latency * 1e6);
}

std::string doubts_about_bounds(const std::vector<Row>& rows) {
  const auto far = std::ranges::count_if(
      rows, [](const Row& row) { return row.bound_us && row.time_us < kFarBelow * *row.bound_us; });
  if (far == 0) return "";
  return fmt::format(
      "# note: {} of {} rows took less than half of their bound: the links were slower when they "
      "were measured, at the start of the ranks\n",
      far, rows.size());
}

}  // namespace echelon::perf
