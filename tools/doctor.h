// SPDX-License-Identifier: Apache-2.0
// `echelon doctor`: checks hosts for what Echelon needs and for what costs speed. See
// docs/doctor.md.
#pragma once

#include <CLI/App.hpp>

namespace echelon::tools {

void add_doctor(CLI::App& app);

}  // namespace echelon::tools
