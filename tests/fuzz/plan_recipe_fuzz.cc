// SPDX-License-Identifier: Apache-2.0
// Wanted plans (ECHELON_ALGORITHM): any text gives a recipe that reads back as it was written, or
// ECH_ERR_INVALID; and the recipe gives plans on small clusters, or ECH_ERR_INVALID.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "lib/plans.h"

namespace {

using namespace echelon;

Shape shape_of(const char* fabric_file, int ranks) {
  const Fabric fabric = expand(parse_fabric_file(fabric_file, "shape"));
  return make_shape(make_layout(fabric, spread_ranks(fabric, ranks)), true);
}

void plan(const Shape& shape, const Recipe& recipe) {
  try {
    Plans plans(shape, shape.size - 1, recipe);
    for (const ech_collective collective : {ECH_ALLREDUCE, ECH_BROADCAST, ECH_REDUCE_SCATTER})
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 33})
        (void)explain_json(plans.explain({collective, bytes, 0}));
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Shape one_host = shape_of("[[host]]\nname = \"a\"\nranks = 3\n", 3);
  static const Shape two_hosts = shape_of("[[host]]\nname = \"a[0-1]\"\nranks = 2\n", 4);
  Recipe recipe;
  try {
    recipe = parse_recipe({reinterpret_cast<const char*>(data), size});
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
    return 0;
  }
  if (recipe.algorithms.empty() || parse_recipe(to_text(recipe)) != recipe) std::abort();
  plan(one_host, recipe);
  plan(two_hosts, recipe);
  return 0;
}
