// SPDX-License-Identifier: Apache-2.0
// What the checks of `echelon doctor` look at below /proc and /sys (see tree.h): whatever it holds
// gives a report that survives the way to another host.
#include <nlohmann/json.hpp>

#include "tests/fuzz/tree.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon::doctor;
  static echelon::fuzz::Tree tree;
  tree.fill({reinterpret_cast<const char*>(data), size});
  View view;
  view.root = tree.root();
  view.job.local_ranks = 2;
  const nlohmann::json sent = to_document(examine(view));
  const std::string text = sent.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  (void)report_from(nlohmann::json::parse(text));
  return 0;
}
