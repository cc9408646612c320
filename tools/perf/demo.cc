// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/demo.h"

#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "tools/perf/doubts.h"
#include "tools/perf/report.h"
#include "tools/perf/run.h"
#include "tools/perf/table.h"

namespace echelon::perf {
namespace {

constexpr const char* kFlatRing = "ring";

void say(const Comm& comm, const std::string& text) {
  if (!comm.leader()) return;
  fmt::print("{}", text);
  std::fflush(stdout);
}

}  // namespace

std::uint64_t demo(const Comm& comm, const Settings& settings) {
  say(comm, "== The fabric as discovered\n\n");
  if (comm.leader()) say(comm, comm.fabric() + doubts_about_links(comm.fabric(ECH_JSON)));
  say(comm, "\n== The plan for each size, and why\n\n");
  if (comm.leader()) say(comm, plans_text(comm, settings));
  say(comm, "\n== Measured\n\n");
  const std::vector<Row> chosen = measure_table(comm, settings, comm);
  say(comm, doubts_about_bounds(chosen));

  say(comm, "\n== The same sizes by a flat ring, blind to the hosts\n\n");
  const Comm flat(comm, kFlatRing);
  const std::vector<Row> ring = measure_table(flat, settings, comm);

  say(comm, "\n== What the hierarchy gains\n\n" + comparison(chosen, ring, "flat ring"));
  return wrong_elements(chosen) + wrong_elements(ring);
}

}  // namespace echelon::perf
