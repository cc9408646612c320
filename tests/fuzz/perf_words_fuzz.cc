// SPDX-License-Identifier: Apache-2.0
// The words of the options of `echelon perf`: any text gives types, ops, collectives and sizes that
// have names, or is refused.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tools/perf/words.h"

namespace {

using namespace echelon::perf;

// Each by its name alone reads back as itself.
template <typename Parse>
void words(std::string_view text, Parse parse) {
  try {
    for (const auto value : parse(text)) {
      const auto again = parse(name(value));
      if (again.size() != 1 || again[0] != value) std::abort();
    }
  } catch (const std::invalid_argument& e) {
    if (std::string_view(e.what()).empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  words(input, parse_dtypes);
  words(input, parse_ops);
  words(input, parse_collectives);
  const auto bytes = parse_bytes(input);
  if (bytes && (*bytes >> 50) != 0) std::abort();
  if (bytes && bytes_text(*bytes).empty()) std::abort();
  return 0;
}
