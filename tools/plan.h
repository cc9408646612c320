// SPDX-License-Identifier: Apache-2.0
// `echelon plan`: what would be chosen on the machines of a fabric file, and why. Needs no cluster.
#pragma once

namespace CLI {
class App;
}

namespace echelon::tools {

void add_plan(CLI::App& app);

}  // namespace echelon::tools
