// SPDX-License-Identifier: Apache-2.0
// Results as text. Knows nothing of how they came about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/perf/settings.h"

namespace echelon::perf {

struct Row {
  ech_collective collective = ECH_ALLREDUCE;
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::string_view type;
  std::string_view op;  // "none" where there is none
  double time_us = 0, p99_us = 0, mean_us = 0;
  double algbw_gbs = 0, busbw_gbs = 0;
  double cpu_s = 0;
  std::optional<std::uint64_t> wrong;
  std::string plan;
  std::optional<double> predicted_us, bound_us;
  std::optional<double> nccl_us;
};

// What not every table has.
struct Columns {
  bool several = false;  // collectives
  bool nccl = false;     // its time, and ours by it
};

// What is written before the rows, "" in JSON.
std::string header(Format format, Columns columns = {});

// One row with its newline.
std::string line(Format format, const Row& row, Columns columns = {});

// Microseconds with as many digits as mean something.
std::string time_text(double us);

// The same operations done in two ways.
std::string comparison(const std::vector<Row>& rows, const std::vector<Row>& others,
                       std::string_view other_name);

// Who held up whom, as ech_comm_stats says. Text of several lines that begin with "#", or JSON.
std::string statistics_text(Format format, const ech_stats& stats);

}  // namespace echelon::perf
