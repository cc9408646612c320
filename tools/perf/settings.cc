// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/settings.h"

#include <algorithm>
#include <stdexcept>

#include "tools/perf/words.h"

namespace echelon::perf {

std::vector<std::size_t> sizes(const Settings& settings) {
  constexpr std::size_t kMost = 100000;
  if (settings.min_bytes > settings.max_bytes)
    throw std::invalid_argument("the smallest size is above the largest: expected -b <= -e");
  if (settings.step_bytes == 0 && settings.factor < 2)
    throw std::invalid_argument("the factor between sizes must be at least 2");
  const std::size_t steps = settings.max_bytes - settings.min_bytes;
  if (settings.step_bytes != 0 && steps / settings.step_bytes >= kMost)
    throw std::invalid_argument("more than 100000 sizes: expected a larger step than -i says");
  std::vector<std::size_t> all;
  const auto factor = static_cast<std::size_t>(settings.factor);
  for (std::size_t size = settings.min_bytes; size <= settings.max_bytes;) {
    all.push_back(size);
    size = settings.step_bytes != 0 ? size + settings.step_bytes
                                    : std::max(size * factor, std::size_t{1});
  }
  if (settings.end_at_max && all.back() != settings.max_bytes) all.push_back(settings.max_bytes);
  return all;
}

std::size_t send_elements(const Case& c, int ranks) {
  return c.collective == ECH_REDUCE_SCATTER ? c.count * ranks : c.count;
}

std::size_t recv_elements(const Case& c, int ranks) {
  return c.collective == ECH_ALLGATHER ? c.count * ranks : c.count;
}

std::size_t bytes_of(const Case& c, int ranks) {
  return std::max(send_elements(c, ranks), recv_elements(c, ranks)) * size_of(c.dtype);
}

std::size_t count_for(std::size_t bytes, const Case& c, int ranks) {
  if (c.collective == ECH_BARRIER || bytes == 0) return 0;
  const std::size_t elements = bytes / size_of(c.dtype);
  return std::max<std::size_t>(1, has_parts(c.collective) ? elements / ranks : elements);
}

}  // namespace echelon::perf
