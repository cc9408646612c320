// SPDX-License-Identifier: Apache-2.0
#include "lib/tuning/tuning.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/dtype.h"
#include "lib/base/error.h"

namespace echelon {

const std::array<TunedSharedMemory::Key, 3> TunedSharedMemory::kKeys = {
    {{"one_shot", &TunedSharedMemory::one_shot},
     {"read", &TunedSharedMemory::read},
     {"direct", &TunedSharedMemory::direct}}};

const std::array<TunedSharedMemory::TriedKey, 3> TunedSharedMemory::kTriedKeys = {
    {{"stores", &TunedSharedMemory::stores},
     {"kernel_copy", &TunedSharedMemory::kernel_copy},
     {"results", &TunedSharedMemory::results}}};

const TunedPlan* find_tuned(std::span<const TunedPlan> plans, ech_collective collective,
                            std::size_t bytes) {
  const auto at = std::ranges::find_if(plans, [&](const TunedPlan& p) {
    return p.collective == collective && p.above < bytes && bytes <= p.up_to;
  });
  return at == plans.end() ? nullptr : &*at;
}

bool needs_messages(std::span<const TunedPlan> plans) {
  return std::ranges::any_of(plans, [](const TunedPlan& p) {
    return p.plan.recipe.algorithms != std::vector{Algorithm::kNative};
  });
}

void require_possible(const Tuning& tuning, const Shape& shape) {
  for (const TunedPlan& p : tuning.plans)
    if (!can_do(shape, p.plan.recipe, p.collective))
      throw invalid(fmt::format("plan \"{}\" cannot do {} (of {} to {} bytes) on this layout",
                                to_text(p.plan.recipe), name(p.collective), p.above + 1, p.up_to));
}

}  // namespace echelon
