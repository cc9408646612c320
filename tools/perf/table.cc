// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "tools/perf/measure.h"
#include "tools/perf/progress.h"
#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

// What has rows in common: everything but the size.
std::vector<Case> series(const Comm& comm, const Settings& settings, Case c) {
  std::vector<Case> cases;
  for (std::size_t size : sizes(settings)) {
    c.count = count_for(size, c, comm.size());
    if (cases.empty() || cases.back().count != c.count) cases.push_back(c);
  }
  return cases;
}

std::vector<std::vector<Case>> all_series(const Comm& comm, const Settings& settings) {
  if (settings.root >= comm.size())
    throw std::invalid_argument(
        fmt::format("root {} is none of the {} ranks", settings.root, comm.size()));
  std::vector<std::vector<Case>> all;
  for (ech_collective collective : settings.collectives)
    for (ech_dtype dtype : settings.dtypes)
      for (ech_op op : settings.ops) {
        const Case c{collective, dtype, op, settings.root, 0, settings.in_place, 0};
        const bool repeated = (!reduces(collective) && op != settings.ops.front()) ||
                              (collective == ECH_BARRIER && dtype != settings.dtypes.front());
        if (!repeated) all.push_back(series(comm, settings, c));
      }
  return all;
}

Row row_of(const Comm& comm, const Case& c, const Measurement& m) {
  Row row;
  row.collective = c.collective;
  row.bytes = bytes_of(c, comm.size());
  row.count = c.count;
  row.type = name(c.dtype);
  row.op = reduces(c.collective) ? name(c.op) : "none";
  row.time_us = m.seconds.median * 1e6;
  row.p99_us = m.seconds.p99 * 1e6;
  row.mean_us = m.seconds.mean * 1e6;
  if (m.seconds.median > 0)
    row.algbw_gbs = static_cast<double>(row.bytes) / m.seconds.median * 1e-9;
  row.busbw_gbs = row.algbw_gbs * bus_factor(c.collective, comm.size());
  row.cpu_s = m.cpu_seconds;
  row.wrong = m.wrong;
  if (m.peer_seconds) row.nccl_us = *m.peer_seconds * 1e6;
  return row;
}

// The plan of `comm`, with the prediction and the bound of `judge`.
Plan plan_of(const Comm& comm, const Comm& judge, const Case& c) {
  Plan plan = comm.explain(c);
  if (&judge == &comm) return plan;
  const Plan judged = judge.explain(c);
  plan.bound_us = judged.bound_us;
  const auto other = std::ranges::find_if(judged.others, [&](const PredictedPlan& p) {
    return without_segment(p.name) == without_segment(plan.name);
  });
  if (other != judged.others.end()) plan.predicted_us = other->us;
  return plan;
}

// What the rows of a table have in common.
struct Contest {
  const Comm& comm;
  const Settings& settings;
  const Comm& judge;
  Peer* peer;
};

Row measure_row(const Contest& contest, Buffers& buffers, const Case& c) {
  const Comm& comm = contest.comm;
  Plan plan;
  if (comm.leader()) plan = plan_of(comm, contest.judge, c);
  Trial trial(comm, buffers, c);
  Row row = row_of(comm, c, measure(comm, trial, contest.settings, contest.peer));
  row.plan = plan.name;
  row.predicted_us = plan.predicted_us;
  row.bound_us = plan.bound_us;
  return row;
}

void print(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

void print_title(const Comm& comm, const Settings& settings, const Case& c) {
  const bool comments = settings.format == Format::kText || settings.format == Format::kOsu;
  if (!comments || !comm.leader()) return;
  constexpr std::string_view kForms[] = {"blocking", "nonblocking", "in a stream"};
  print(fmt::format("# {} on {}, {}, {}{}{}\n", name(c.collective), shape_text(comm),
                    settings.in_place ? "in place" : "out of place",
                    kForms[static_cast<std::size_t>(settings.form)],
                    comm.device() != nullptr ? ", CUDA memory" : "",
                    settings.shared_memory ? ", memory of ech_alloc" : ""));
}

}  // namespace

std::string shape_text(const Comm& comm) {
  const auto plural = [](int n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  return plural(comm.size(), "rank") + " on " + plural(comm.hosts(), "host");
}

std::vector<Row> measure_table(const Comm& comm, const Settings& settings, const Comm& judge,
                               Peer* peer) {
  std::vector<Row> rows;
  const Columns columns{settings.collectives.size() > 1, peer != nullptr};
  const bool titled = settings.format == Format::kText || settings.format == Format::kOsu;
  Progress progress(comm.leader());
  for (const std::vector<Case>& cases : all_series(comm, settings)) {
    print_title(comm, settings, cases.front());
    if (comm.leader() && (titled || rows.empty())) print(header(settings.format, columns));
    Buffers buffers = buffers_for(cases, comm.size(), {settings.shared_memory, comm.device()});
    for (const Case& c : cases) {
      progress.show(
          fmt::format("{} of {} ...", name(c.collective), bytes_text(bytes_of(c, comm.size()))));
      rows.push_back(measure_row({comm, settings, judge, peer}, buffers, c));
      progress.clear();
      if (comm.leader()) print(line(settings.format, rows.back(), columns));
    }
  }
  return rows;
}

std::string plans_text(const Comm& comm, const Settings& settings) {
  std::string text;
  for (const std::vector<Case>& cases : all_series(comm, settings))
    for (const Case& c : cases) {
      const Plan plan = comm.explain(c);
      text += fmt::format(
          "{:>10}  {:<36} predicted {:>9} us, bound {:>9} us ({})\n{:>12}because {}\n",
          bytes_text(bytes_of(c, comm.size())), plan.name, time_text(plan.predicted_us.value_or(0)),
          time_text(plan.bound_us.value_or(0)), plan.bound_reason, "", plan.reason);
    }
  return text;
}

}  // namespace echelon::perf
