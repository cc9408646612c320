// SPDX-License-Identifier: Apache-2.0
// `echelon tune`: tries the plans on the live ranks and writes down which are quickest.
#pragma once

namespace CLI {
class App;
}

namespace echelon::tools {

void add_tune(CLI::App& app);

}  // namespace echelon::tools
