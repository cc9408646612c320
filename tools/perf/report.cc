// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

// The plan follows last: with one of usual length a row has less than 130 columns.
constexpr std::string_view kTextColumns =
    "{:>10} {:>9} {:>4} {:>4} {:>8} {:>8} {:>7} {:>7} {:>8} {:>6} {:>9} {:>8} {:>6}";
constexpr std::string_view kNcclColumns = " {:>8} {:>6}";

// To what the clocks resolve: more digits would be noise.
double rounded(double value, double per_unit) { return std::round(value * per_unit) / per_unit; }

nlohmann::ordered_json number(std::optional<double> us) {
  if (!us) return nullptr;
  return rounded(*us, 1e3);
}

// Ours by NCCL's.
std::optional<double> by_nccl(const Row& row) {
  if (!row.nccl_us || *row.nccl_us <= 0) return {};
  return row.time_us / *row.nccl_us;
}

nlohmann::ordered_json as_json(const Row& row, Columns columns) {
  nlohmann::ordered_json j;
  if (columns.several) j["collective"] = name(row.collective);
  j["bytes"] = row.bytes;
  j["count"] = row.count;
  j["type"] = row.type;
  j["op"] = row.op;
  j["time_us"] = number(row.time_us);
  j["p99_us"] = number(row.p99_us);
  j["algbw_gbs"] = rounded(row.algbw_gbs, 1e6);
  j["busbw_gbs"] = rounded(row.busbw_gbs, 1e6);
  j["cpu_s"] = rounded(row.cpu_s, 1e9);
  j["wrong"] = row.wrong ? nlohmann::ordered_json(*row.wrong) : nullptr;
  j["plan"] = row.plan;
  j["predicted_us"] = number(row.predicted_us);
  j["bound_us"] = number(row.bound_us);
  if (columns.nccl) {
    j["nccl_us"] = number(row.nccl_us);
    j["time_by_nccl"] = number(by_nccl(row));
  }
  return j;
}

std::string csv_header(Columns columns) {
  std::string text;
  const nlohmann::ordered_json j = as_json({}, columns);
  for (const auto& [key, value] : j.items()) text += (text.empty() ? "" : ",") + key;
  return text + "\n";
}

std::string csv_line(const Row& row, Columns columns) {
  std::string text;
  bool first = true;
  const nlohmann::ordered_json j = as_json(row, columns);
  for (const auto& [key, value] : j.items()) {
    if (!first) text += ',';
    first = false;
    if (value.is_null()) continue;
    text += value.is_string() ? value.get<std::string>() : value.dump();
  }
  return text + "\n";
}

std::string text_line(const Row& row, Columns columns) {
  const auto time = [](std::optional<double> us) { return us ? time_text(*us) : "-"; };
  const auto ratio = [](std::optional<double> r) { return r ? fmt::format("{:.2f}", *r) : "-"; };
  const bool bounded = row.bound_us && *row.bound_us > 0;
  std::string text = fmt::format(
      fmt::runtime(kTextColumns), row.bytes, row.count, row.type, row.op, time_text(row.time_us),
      time_text(row.p99_us), fmt::format("{:.3f}", row.algbw_gbs),
      fmt::format("{:.3f}", row.busbw_gbs), time_text(row.cpu_s * 1e6),
      row.wrong ? fmt::format("{}", *row.wrong) : "N/A", time(row.predicted_us), time(row.bound_us),
      bounded ? fmt::format("{:.2f}", row.time_us / *row.bound_us) : "-");
  if (columns.nccl)
    text += fmt::format(fmt::runtime(kNcclColumns), time(row.nccl_us), ratio(by_nccl(row)));
  return text + fmt::format("  {}\n", row.plan.empty() ? "-" : row.plan);
}

std::string text_header(Columns columns) {
  const auto nccl = [&](const char* time, const char* ratio) {
    return columns.nccl ? fmt::format(fmt::runtime(kNcclColumns), time, ratio) : std::string();
  };
  return fmt::format(fmt::runtime(kTextColumns), "size(B)", "count", "type", "op", "time(us)",
                     "p99(us)", "algbw", "busbw", "cpu(us)", "#wrong", "predicted", "bound",
                     "time/") +
         nccl("NCCL", "time/") + "  plan\n" +
         fmt::format(fmt::runtime(kTextColumns), "", "", "", "", "", "", "(GB/s)", "(GB/s)", "all",
                     "", "(us)", "(us)", "bound") +
         nccl("(us)", "NCCL") + "  \n";
}

}  // namespace

std::string time_text(double us) {
  if (us < 100) return fmt::format("{:.2f}", us);
  if (us < 1000) return fmt::format("{:.1f}", us);
  return fmt::format("{:.0f}", us);
}

std::string header(Format format, Columns columns) {
  switch (format) {
    case Format::kText:
      return text_header(columns);
    case Format::kCsv:
      return csv_header(columns);
    case Format::kOsu:
      return fmt::format("{:<12} {:>18}\n", "# Size", "Avg Latency(us)");
    case Format::kJson:
      break;
  }
  return "";
}

std::string line(Format format, const Row& row, Columns columns) {
  switch (format) {
    case Format::kJson:
      return as_json(row, columns).dump() + "\n";
    case Format::kCsv:
      return csv_line(row, columns);
    case Format::kOsu:
      return fmt::format("{:<12} {:>18.2f}\n", row.bytes, row.mean_us);
    case Format::kText:
      break;
  }
  return text_line(row, columns);
}

std::string comparison(const std::vector<Row>& rows, const std::vector<Row>& others,
                       std::string_view other_name) {
  constexpr std::string_view kColumns = "{:>10} {:>14} {:>14} {:>8}   {}\n";
  std::string text = fmt::format(fmt::runtime(kColumns), "size", "chosen(us)",
                                 fmt::format("{}(us)", other_name), "gain", "chosen plan");
  for (std::size_t i = 0; i < std::min(rows.size(), others.size()); ++i)
    text += fmt::format(fmt::runtime(kColumns), bytes_text(rows[i].bytes),
                        time_text(rows[i].time_us), time_text(others[i].time_us),
                        fmt::format("{:.2f} x", others[i].time_us / rows[i].time_us), rows[i].plan);
  return text;
}

std::string statistics_text(Format format, const ech_stats& stats) {
  if (format == Format::kJson) {
    const nlohmann::ordered_json j = {{"periods", stats.periods},
                                      {"timed", stats.timed},
                                      {"slowest_rank", stats.slowest_rank},
                                      {"lateness_us", number(stats.lateness * 1e6)},
                                      {"slowest_from", stats.slowest_from},
                                      {"slowest_to", stats.slowest_to},
                                      {"measured_mbs", rounded(stats.measured / 1e6, 1e3)},
                                      {"assumed_mbs", rounded(stats.assumed / 1e6, 1e3)},
                                      {"replans", stats.replans}};
    return nlohmann::ordered_json{{"stats", j}}.dump() + "\n";
  }
  if (stats.periods == 0) return "# stats: too few operations; it takes 1024, or 64 MiB\n";
  std::string text = "# stats of the last period: ";
  text += stats.slowest_rank < 0
              ? "no operation was timed\n"
              : fmt::format("{} operations timed; rank {} came last, {} us after the first\n",
                            stats.timed, stats.slowest_rank, time_text(stats.lateness * 1e6));
  if (stats.slowest_from >= 0)
    text += fmt::format(
        "# slowest link: host {} to host {}, {:.4g} MB/s; plans assumed {:.4g} MB/s\n",
        stats.slowest_from, stats.slowest_to, stats.measured / 1e6, stats.assumed / 1e6);
  if (stats.replans > 0)
    text += fmt::format("# plans were made again for slow links: {} x\n", stats.replans);
  return text;
}

}  // namespace echelon::perf
