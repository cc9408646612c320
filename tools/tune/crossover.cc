// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/crossover.h"

#include <cmath>

#include "tools/tune/report.h"

namespace echelon::tune {

constexpr double kFewest = 2;  // sizes that change hands

std::size_t crossover(std::span<const TwoWays> times, std::size_t usual) {
  std::size_t best = 0;
  double lead = 0, usual_lead = 0, most = 0;  // of the way for small sizes in those before
  for (std::size_t k = 1; k <= times.size(); ++k) {
    lead += std::log(times[k - 1].large / times[k - 1].small);
    if (k == usual) usual_lead = lead;
    if (lead <= most) continue;
    best = k;
    most = lead;
  }
  const double changed = std::abs(static_cast<double>(best) - static_cast<double>(usual));
  const bool luck = changed < kFewest || most - usual_lead < changed * std::log(kWorthIt);
  return luck ? usual : best;
}

}  // namespace echelon::tune
