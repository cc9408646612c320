// SPDX-License-Identifier: Apache-2.0
// The measured table: every collective, type, op and size of the settings, one row each.
#pragma once

#include <string>
#include <vector>

#include "tools/perf/comm.h"
#include "tools/perf/report.h"
#include "tools/perf/settings.h"

namespace echelon::perf {

// Collective. Rank 0 prints each row as soon as it is measured. All ranks return the same `wrong`.
// Throws std::invalid_argument when the settings do not fit the communicator.
// What is predicted and the bound are those of `judge`, which has the same ranks: of its links.
// `peer`: to compare with, or nullptr.
std::vector<Row> measure_table(const Comm& comm, const Settings& settings, const Comm& judge,
                               Peer* peer = nullptr);

// The plan of every row of the table and why it is chosen. Rank 0 only.
std::string plans_text(const Comm& comm, const Settings& settings);

// "8 ranks on 4 hosts".
std::string shape_text(const Comm& comm);

}  // namespace echelon::perf
