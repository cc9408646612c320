// SPDX-License-Identifier: Apache-2.0
// `echelon doctor`: checks hosts for what Echelon needs and for what costs speed. See
// docs/doctor.md.
#pragma once

namespace echelon::tools {

class Program;

void add_doctor(Program& program);

}  // namespace echelon::tools
