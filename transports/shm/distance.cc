// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/distance.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "lib/reduce/kernels.h"
#include "transports/shm/segment.h"

namespace echelon::shm {
namespace {

constexpr std::size_t kHalf = kProbeBytes / 2;

// Writing and reading a probe takes 3 to 10 us.
constexpr auto kPeriod = std::chrono::milliseconds(3);

// So many times what memory takes at its quickest is far. What is near was read in 0.5 to 0.9 of
// that, and one time in ten in more; what is far in 2 to 4. Measured on an EPYC (Zen 4):
// bench/RESULTS.md, "ranks that share no cache".
constexpr double kFar = 1.7;

// 2^32 divided by the golden ratio: Knuth, The Art of Computer Programming 3, 6.4.
constexpr std::uint32_t kScatter = 0x9E3779B1;

constexpr std::size_t kPage = 4096;

// A sanitizer's checks would take ten times as long as what is measured. Who calls this has touched
// every page before, under their eyes.
__attribute__((no_sanitize("address", "thread", "undefined"))) std::uint64_t sum_of_lines(
    const std::byte* data) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < kHalf; at += kLine) {
    std::uint64_t word;
    std::memcpy(&word, data + at, sizeof word);
    sum += word;
  }
  return sum;
}

}  // namespace

std::uint32_t Distance::write(std::byte* probe) {
  if (++number_ == 0) ++number_;
  next_ = Clock::now();
  if (number_ > kKept) next_ += kPeriod;  // the first come one after another
  std::memset(probe, static_cast<int>(number_ & 0xff), kHalf);
  stream_copy(probe + kHalf, probe, kHalf);
  return number_;
}

bool Distance::read(int member, std::uint32_t number, const std::byte* probe) {
  if (number == 0) return false;
  const std::uint32_t turn = (number * kScatter >> 16) % static_cast<std::uint32_t>(others_);
  if ((member + 1 + static_cast<int>(turn)) % (others_ + 1) != self_) return false;
  // The lines shall be waited for, not translations of addresses.
  for (std::size_t at = 0; at < kProbeBytes; at += kPage) sum_ += std::to_integer<int>(probe[at]);
  sum_ += static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());  // and code
  const auto begin = Clock::now();
  sum_ += sum_of_lines(probe);
  const auto between = Clock::now();
  sum_ += sum_of_lines(probe + kHalf);
  note({between - begin, Clock::now() - between});
  return true;
}

void Distance::note(const Sample& sample) {
  if (sample.streamed <= Sample::Time::zero()) return;
  samples_[noted_++ % kKept] = sample;
  const std::size_t count = std::min(noted_, kKept);
  const auto lately = std::span(samples_).first(count);
  const auto memory = std::ranges::min(lately, {}, &Sample::streamed).streamed;
  const auto far =
      std::ranges::count_if(lately, [&](const Sample& s) { return s.cached > kFar * memory; });
  far_ = known() && 3 * static_cast<std::size_t>(far) >= count;
}

}  // namespace echelon::shm
