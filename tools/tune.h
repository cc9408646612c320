// SPDX-License-Identifier: Apache-2.0
// `echelon tune`: tries the plans on the live ranks and writes down which are quickest.
#pragma once

namespace echelon::tools {

class Program;

void add_tune(Program& program);

}  // namespace echelon::tools
