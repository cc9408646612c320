// SPDX-License-Identifier: Apache-2.0
// Tuning files: any bytes give what reads back as it was written, or ECH_ERR_INVALID; and what was
// read gives plans on a small cluster, or ECH_ERR_INVALID.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "lib/plans.h"
#include "lib/tuning/tuning.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echelon;
  static const Shape shape = [] {
    const Fabric fabric =
        expand(parse_fabric_file("[[host]]\nname = \"a[0-1]\"\nranks = 2\n", "shape"));
    return make_shape(make_layout(fabric, spread_ranks(fabric, 4)), true);
  }();
  try {
    Tuning tuning = parse_tuning({reinterpret_cast<const char*>(data), size}, "input");
    if (parse_tuning(to_toml(tuning), "again") != tuning) std::abort();
    require_possible(tuning, shape);
    Plans plans(shape, 3, {}, std::move(tuning.plans));
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 30; bytes <<= 5)
      (void)explain_json(plans.explain({ECH_ALLREDUCE, bytes, 0}));
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
