// SPDX-License-Identifier: Apache-2.0
// A host's report as it comes from another machine: any JSON gives a report, which can be shown
// without harm to a terminal, or an Error.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/error.h"
#include "tools/doctor/report.h"

namespace {

using namespace echelon::doctor;

Report report_in(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) throw echelon::invalid("no JSON");
  return report_from(document);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Survey survey;
  try {
    const Report report = report_in({reinterpret_cast<const char*>(data), size});
    survey.hosts = {{"a", "", report, {}}, {"b", "", report, ClockOffset{1, 1}}};
  } catch (const echelon::Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
    return 0;
  }
  for (const char c : to_text(survey))
    if ((c >= 0 && c < 0x20 && c != '\n') || c == 0x7f) std::abort();
  (void)to_json(survey);
  return 0;
}
