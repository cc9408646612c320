// SPDX-License-Identifier: Apache-2.0
// What ranks answer when they are asked what they do: any bytes give a report, or an Error; any
// reports can be compared, and what is found is one line. The first two bytes say how long the
// reports of the first two ranks are.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/bootstrap/inquiry.h"

namespace {

using namespace echelon;

Snapshot report(std::string_view bytes) {
  try {
    Snapshot snapshot = decode_snapshot(bytes);
    if (encode_snapshot(snapshot).size() != bytes.size()) std::abort();
    return snapshot;
  } catch (const Error&) {
    return {};
  }
}

void expect_line(std::string_view text) {
  if (text.find('\n') != text.npos || text.size() > 10'000) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string_view rest = all.substr(std::min<std::size_t>(data[0], all.size()));
  const std::vector<Snapshot> reports = {
      report(all.substr(0, data[0])), report(rest.substr(0, data[1])),
      report(rest.substr(std::min<std::size_t>(data[1], rest.size())))};
  const Comparison found =
      compare(reports, [](int rank) { return "rank " + std::to_string(rank); });
  expect_line(found.mismatch);
  expect_line(found.waiting);
  for (const Snapshot& snapshot : reports) expect_line(snapshot.text());
  return 0;
}
