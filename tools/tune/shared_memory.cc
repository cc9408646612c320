// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/fabric/quantity.h"
#include "tools/tune/crossover.h"
#include "tools/tune/host_group.h"
#include "transports/shm/shared_alloc.h"

namespace echelon::tune {
namespace {

using Clock = std::chrono::steady_clock;
using shm::Thresholds;

constexpr std::size_t kNever = TunedThresholds::kNever;
constexpr std::size_t kSingleCopyFrom = 64 << 10;
constexpr int kCells = 45;        // all sizes of all ways, about
constexpr double kSample = 1e-3;  // s

// A threshold, and what lies on either side of it.
struct Way {
  std::optional<std::size_t> TunedThresholds::*threshold;
  Thresholds small, large;
  std::size_t least, most;  // sizes that are tried, by powers of two
  std::size_t usual;        // the first size of the way for large ones
  GroupAction action = GroupAction::kAllreduce;
  bool shared = false;  // buffers
};

Thresholds with(std::size_t Thresholds::*field, std::size_t value) {
  Thresholds out;
  out.*field = value;
  return out;
}

Way one_shot(bool pair) {
  const Thresholds built_in;
  Thresholds always, never;
  always.one_shot = always.one_shot_pair = kNever;
  never.one_shot = never.one_shot_pair = 0;
  const std::size_t largest = pair ? built_in.one_shot_pair : built_in.one_shot;
  return {&TunedThresholds::one_shot, always, never, 1 << 10, 512 << 10, 2 * largest};
}

std::vector<Way> ways_of(int members) {
  const Thresholds built_in;
  std::vector<Way> out{one_shot(members <= 2)};
  out.push_back(
      {&TunedThresholds::read, built_in, with(&Thresholds::read, 0), 64 << 10, 16 << 20, kNever});
  if (members == 2)
    out.push_back({&TunedThresholds::read_pair, built_in, with(&Thresholds::read_pair, 0), 16 << 10,
                   16 << 20, kSingleCopyFrom, GroupAction::kAllgather});
  out.push_back({&TunedThresholds::direct, with(&Thresholds::direct, kNever),
                 with(&Thresholds::direct, 0), 1 << 10, 1 << 20, built_in.direct,
                 GroupAction::kAllreduce, true});
  out.push_back({&TunedThresholds::stream, with(&Thresholds::stream, kNever),
                 with(&Thresholds::stream, 0), 1 << 20, 64 << 20, built_in.stream});
  return out;
}

using Memory = std::unique_ptr<void, void (*)(void*)>;

Memory zeros(std::size_t bytes, bool shared) {
  Memory memory(shared ? shared_alloc(bytes) : std::calloc(bytes, 1),
                shared ? shared_free : std::free);
  if (!memory) throw perf::Failure(fmt::format("tune: no {} of memory", format_size(bytes)));
  std::fill_n(static_cast<std::byte*>(memory.get()), bytes, std::byte{0});
  return memory;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Both sides of one threshold, in turns.
class Duel {
 public:
  Duel(const perf::Comm& comm, const Way& way, std::size_t largest)
      : comm_(comm),
        way_(way),
        small_(comm, way.small),
        large_(comm, way.large),
        input_(zeros(largest, way.shared)),
        output_(zeros(largest * parts(), way.shared)) {}

  TwoWays measure(std::size_t bytes, double seconds) {
    const double once = comm_.max(std::max(sample(small_, bytes, 1), sample(large_, bytes, 1)));
    const int calls = static_cast<int>(std::clamp(kSample / once, 1.0, 200.0));
    const int rounds = static_cast<int>(std::clamp(seconds / (2 * calls * once), 3.0, 15.0));
    std::vector<double> small, large;
    for (int round = 0; round < rounds; ++round) {
      small.push_back(sample(small_, bytes, calls));
      large.push_back(sample(large_, bytes, calls));
    }
    std::array<double, 2> slowest{median(small), median(large)};
    comm_.max(slowest);
    return {slowest[0], slowest[1]};
  }

 private:
  bool gathers() const { return way_.action == GroupAction::kAllgather; }
  std::size_t parts() const { return gathers() ? static_cast<std::size_t>(small_.size()) : 1; }

  // Seconds per call.
  double sample(HostGroup& group, std::size_t bytes, int calls) {
    std::vector<GroupPart> pieces;
    for (std::size_t p = 0; p < parts(); ++p)
      pieces.push_back({0, p * bytes, bytes, static_cast<int>(p)});
    GroupWork work;
    work.action = way_.action;
    work.dtype = ECH_FLOAT32;
    work.input = static_cast<const std::byte*>(input_.get());
    work.output = static_cast<std::byte*>(output_.get());
    work.parts = pieces;
    group.call({});  // all begin together
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) group.call(work);
    return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
  }

  const perf::Comm& comm_;
  const Way& way_;
  HostGroup small_, large_;
  const Memory input_, output_;
};

// What the file is to say; nothing where the built-in size is as good.
std::optional<std::size_t> measure(const perf::Comm& comm, const Way& way, std::size_t largest,
                                   double seconds_per_size) {
  const std::size_t most = std::min(way.most, largest);
  if (most < way.least) return std::nullopt;
  Duel duel(comm, way, most);
  std::vector<std::size_t> sizes;
  std::vector<TwoWays> times;
  for (std::size_t bytes = way.least; bytes <= most; bytes *= 2) {
    sizes.push_back(bytes);
    times.push_back(duel.measure(bytes, seconds_per_size));
  }
  const auto usual = static_cast<std::size_t>(
      std::ranges::count_if(sizes, [&](std::size_t bytes) { return bytes < way.usual; }));
  const std::size_t found = crossover(times, usual);
  if (found == usual) return std::nullopt;
  if (way.threshold == &TunedThresholds::one_shot) return found == 0 ? 0 : sizes[found - 1];
  return found == sizes.size() ? kNever : sizes[found];
}

}  // namespace

TunedThresholds measure_thresholds(const perf::Comm& comm, std::size_t largest, double seconds) {
  TunedThresholds out;
  const int members = HostGroup(comm, {}).size();
  const int most = static_cast<int>(comm.max(members));
  if (most == 1) return out;
  for (const Way& way : ways_of(most))
    out.*way.threshold = measure(comm, way, largest, seconds / kCells);
  return out;
}

std::string line(const TunedThresholds& thresholds) {
  std::string text;
  for (const TunedThresholds::Key& key : TunedThresholds::kKeys) {
    const std::optional<std::size_t>& bytes = thresholds.*key.value;
    if (!bytes) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key.name,
                        *bytes == kNever ? "never" : format_size(*bytes));
  }
  return fmt::format("# shared memory: {}\n",
                     text.empty() ? "as built in" : text + "; else as built in");
}

}  // namespace echelon::tune
