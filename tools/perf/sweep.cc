// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "tools/perf/progress.h"
#include "tools/perf/table.h"
#include "tools/perf/trial.h"
#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

// None, one, fewer than ranks, primes; the last ones need several pieces and segments.
constexpr std::size_t kCounts[] = {0, 1, 3, 17, 1021, 40009};
constexpr std::size_t kManyElements = 1048583;

struct Tally {
  std::uint64_t operations = 0;
  std::uint64_t wrong = 0;
};

std::vector<int> roots(const Comm& comm, ech_collective collective) {
  if (!has_root(collective) || comm.size() == 1) return {0};
  return {0, comm.size() - 1};
}

// Every count of one type and op, both places, all roots.
void add_counts(const Comm& comm, Case c, std::vector<Case>& out) {
  for (std::size_t count : kCounts)
    for (bool in_place : {false, true})
      for (int root : roots(comm, c.collective)) {
        c.count = count;
        c.in_place = in_place;
        c.root = root;
        c.offset = count % 2;
        out.push_back(c);
      }
}

std::vector<Case> cases_of(const Comm& comm, ech_collective collective) {
  if (collective == ECH_BARRIER) return {{.collective = collective}};
  std::vector<Case> cases;
  for (ech_dtype dtype : parse_dtypes("all"))
    for (ech_op op : parse_ops(reduces(collective) ? "all" : "sum"))
      add_counts(comm, {.collective = collective, .dtype = dtype, .op = op}, cases);
  Case many{.collective = collective};
  many.count = count_for(kManyElements * size_of(many.dtype), many, comm.size());
  cases.push_back(many);
  return cases;
}

// Sums that round must do so in the same way on every rank.
Tally compare_bits(const Comm& comm, Buffers& buffers) {
  Tally tally;
  for (ech_dtype dtype : {ECH_FLOAT16, ECH_BFLOAT16, ECH_FLOAT32, ECH_FLOAT64})
    for (ech_op op : {ECH_SUM, ECH_PROD, ECH_AVG})
      for (std::size_t count : {std::size_t{17}, std::size_t{40009}}) {
        Trial trial(comm, buffers, {.dtype = dtype, .op = op, .count = count});
        trial.prepare_inexact();
        trial.run();
        ++tally.operations;
        if (comm.same_everywhere(trial.result_checksum())) continue;
        ++tally.wrong;
        if (comm.leader())
          fmt::print(stderr, "echelon perf: allreduce {} {} of {} elements: {}\n", name(dtype),
                     name(op), count, "the ranks' results differ in how they round");
      }
  return tally;
}

Tally check(const Comm& comm, ech_collective collective, const Settings& settings) {
  const std::vector<Case> cases = cases_of(comm, collective);
  Buffers buffers = buffers_for(cases, comm.size(), {settings.shared_memory, comm.device()});
  const std::uint64_t forms = comm.device() != nullptr ? 3 : 2;
  Tally tally;
  for (const Case& c : cases) {
    Trial trial(comm, buffers, c);
    trial.prepare();
    trial.run(static_cast<Form>(tally.operations % forms));
    tally.wrong += trial.verify();
    ++tally.operations;
  }
  if (collective == ECH_ALLREDUCE) {
    const Tally bits = compare_bits(comm, buffers);
    tally.operations += bits.operations;
    tally.wrong += bits.wrong;
  }
  return tally;
}

}  // namespace

std::uint64_t sweep(const Comm& comm, const Settings& settings) {
  if (comm.leader()) fmt::print("# exact check on {}\n", shape_text(comm));
  std::uint64_t wrong = 0;
  Progress progress(comm.leader());
  for (ech_collective collective : settings.collectives) {
    progress.show(fmt::format("checking {} ...", name(collective)));
    const Tally tally = check(comm, collective, settings);
    progress.clear();
    wrong += tally.wrong;
    if (!comm.leader()) continue;
    fmt::print("{:<16} {:>5} operations  {}\n", name(collective), tally.operations,
               tally.wrong == 0 ? "ok" : fmt::format("FAILED: {} wrong elements", tally.wrong));
    std::fflush(stdout);
  }
  return wrong;
}

}  // namespace echelon::perf
