// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/run.h"

#include <fmt/format.h>

#include <cstdio>

#include "tools/perf/comm.h"
#include "tools/perf/demo.h"
#include "tools/perf/doubts.h"
#include "tools/perf/sweep.h"
#include "tools/perf/table.h"

namespace echelon::perf {

std::uint64_t wrong_elements(const std::vector<Row>& rows) {
  std::uint64_t wrong = 0;
  for (const Row& row : rows) wrong += row.wrong.value_or(0);
  return wrong;
}

std::uint64_t run(const Settings& settings) {
  sizes(settings);  // contradictions are found before anything is connected
  const Comm comm(settings.algorithm);
  if (settings.sweep) return sweep(comm, settings);
  if (settings.demo) return demo(comm, settings);
  if (settings.plans && comm.leader())
    fmt::print("{}{}\n{}\n", comm.fabric(), doubts_about_links(comm.fabric(ECH_JSON)),
               plans_text(comm, settings));
  const std::vector<Row> rows = measure_table(comm, settings, comm);
  if (settings.format == Format::kText && comm.leader())
    fmt::print("{}", doubts_about_bounds(rows));
  if (settings.stats && comm.leader()) {
    std::FILE* const out = settings.format == Format::kCsv ? stderr : stdout;
    fmt::print(out, "{}", statistics_text(settings.format, comm.statistics()));
  }
  return wrong_elements(rows);
}

}  // namespace echelon::perf
