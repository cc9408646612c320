// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/shared_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "lib/fabric/loaders.h"
#include "lib/fabric/quantity.h"
#include "lib/shm_options.h"
#include "tools/tune/crossover.h"
#include "tools/tune/host_calls.h"
#include "tools/tune/host_group.h"
#include "tools/tune/ways.h"

namespace echelon::tune {
namespace {

using Clock = std::chrono::steady_clock;
using shm::Thresholds;

constexpr std::size_t kNever = TunedSharedMemory::kNever;
constexpr int kCells = 60;        // 39 sizes of all ways, and what trials take
constexpr double kSample = 1e-3;  // s

constexpr std::array kTriedKinds = {Kind::kAllreduce, Kind::kAllgather, Kind::kBroadcast};

// A threshold, and what lies on either side of it.
struct Way {
  std::optional<std::size_t> TunedSharedMemory::*threshold;
  Thresholds small, large;
  std::size_t least, most;                       // sizes that are tried, by powers of two
  std::size_t usual;                             // the first size of the way for large ones
  std::vector<Kind> kinds = {Kind::kAllreduce};  // whose times are multiplied
  bool shared = false;                           // buffers
  bool needs_all = false;                        // nothing is said before `most` was tried
};

Thresholds with(Thresholds base, std::size_t Thresholds::*field, std::size_t value) {
  base.*field = value;
  return base;
}

Way one_shot(const Thresholds& base, int members) {
  Thresholds always = base, never = base;
  always.one_shot = always.one_shot_pair = kNever;
  never.one_shot = never.one_shot_pair = 0;
  const std::size_t largest = members <= 2 ? base.one_shot_pair : base.one_shot;
  return {&TunedSharedMemory::one_shot, always, never, 1 << 10, 512 << 10, 2 * largest};
}

// Another way from `field` on.
Way beyond(std::optional<std::size_t> TunedSharedMemory::*threshold, std::size_t Thresholds::*field,
           const Thresholds& base) {
  return {threshold, with(base, field, kNever), with(base, field, 0), 0, 0, base.*field};
}

// What is quicker up to some size need not be beyond it.
Way read(const Thresholds& base, int) {
  Way way = beyond(&TunedSharedMemory::read, &Thresholds::read, base);
  way.least = 64 << 10;
  way.most = 16 << 20;
  way.kinds = {Kind::kAllreduce, Kind::kReduceScatter};
  way.needs_all = true;
  return way;
}

Way direct(const Thresholds& base, int) {
  Way way = beyond(&TunedSharedMemory::direct, &Thresholds::direct, base);
  way.least = 1 << 10;
  way.most = 1 << 20;
  way.shared = true;
  return way;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Both sides of one threshold, in turns.
class Duel {
 public:
  Duel(const perf::Comm& comm, const Way& way, std::size_t largest)
      : comm_(comm), small_(comm, way.small), large_(comm, way.large), calls_(largest, way.shared) {
    comm.barrier();  // after the first touch of so much memory
  }

  TwoWays measure(Kind kind, std::size_t bytes, double seconds) {
    const auto sample = [&](HostGroup& group, int calls) {
      return calls_.sample(group, kind, bytes, calls);
    };
    const double once = comm_.max(std::max(sample(small_, 1), sample(large_, 1)));
    const int calls = static_cast<int>(std::clamp(kSample / once, 1.0, 200.0));
    const int rounds = static_cast<int>(std::clamp(seconds / (2 * calls * once), 3.0, 15.0));
    std::vector<double> small, large;
    for (int round = 0; round < rounds; ++round) {
      small.push_back(sample(small_, calls));
      large.push_back(sample(large_, calls));
    }
    std::array<double, 2> slowest{median(small), median(large)};
    comm_.max(slowest);
    return {slowest[0], slowest[1]};
  }

 private:
  const perf::Comm& comm_;
  HostGroup small_, large_;
  const HostCalls calls_;
};

class Measurement {
 public:
  Measurement(const perf::Comm& comm, std::size_t largest, double seconds)
      : comm_(comm), largest_(largest), seconds_(seconds) {}

  // Nothing where the built-in size is as good, or time was up.
  std::optional<std::size_t> find(const Way& way) {
    const std::size_t most = std::min(way.most, largest_);
    if (most < (way.needs_all ? way.most : way.least)) return std::nullopt;
    Duel duel(comm_, way, most);
    std::vector<std::size_t> sizes;
    std::vector<TwoWays> times;
    for (std::size_t bytes = way.least; bytes <= most; bytes *= 2) {
      if (is_over()) return std::nullopt;
      sizes.push_back(bytes);
      times.push_back({1, 1});
      for (Kind kind : way.kinds) {
        const TwoWays of_kind = duel.measure(kind, bytes, seconds_ / kCells);
        times.back().small *= of_kind.small;
        times.back().large *= of_kind.large;
      }
    }
    const auto usual = static_cast<std::size_t>(
        std::ranges::count_if(sizes, [&](std::size_t bytes) { return bytes < way.usual; }));
    const std::size_t found = crossover(times, usual);
    if (found == usual) return std::nullopt;
    if (way.threshold == &TunedSharedMemory::one_shot)
      return found == 0 ? sizes[0] / 2 : sizes[found - 1];
    if (found < sizes.size()) return sizes[found];
    return sizes.back() * 2 > way.most ? kNever : sizes.back() * 2;
  }

  // What trials find of calls of all kinds and sizes, as in a communicator that knows nothing.
  void try_ways(const Thresholds& thresholds, TunedSharedMemory& out) {
    const std::size_t last = 2 * shm::least_of_class(shm::kSizeClasses - 1);
    if (is_over()) return;
    HostGroup group(comm_, thresholds);
    const HostCalls calls(std::min(last, largest_), false);
    comm_.barrier();
    for (const Kind kind : kTriedKinds) {
      double each = 0;  // s, of the size before
      std::size_t before = 0;
      for (int c = 0; c < shm::kSizeClasses && shm::least_of_class(c) <= largest_; ++c) {
        const std::size_t bytes = std::min(2 * shm::least_of_class(c), largest_);
        const int most = shm::calls_until_found();
        const double growth = static_cast<double>(bytes) / static_cast<double>(before + 1);
        if (is_over(each * growth * most)) break;
        each = comm_.max(calls.sample(group, kind, bytes, most));
        before = bytes;
      }
    }
    keep_ways(comm_, group.ways(), out);
  }

  bool is_complete() const { return complete_; }

 private:
  // `ahead`: seconds that what comes next will take.
  bool is_over(double ahead = 0) {
    const double passed = std::chrono::duration<double>(Clock::now() - begin_).count();
    if (comm_.max(passed + ahead) > seconds_) complete_ = false;
    return !complete_;
  }

  const perf::Comm& comm_;
  const std::size_t largest_;
  const double seconds_;
  const Clock::time_point begin_ = Clock::now();
  bool complete_ = true;
};

// What shm_options() wants to know.
struct Surroundings {
  Host host;
  HostShare share;
};

// What the library would find out when it makes a communicator: host_share().
HostShare own_share(const perf::Comm& comm, const Host& host) {
  const char* named = std::getenv("ECHELON_MACHINE");
  const std::string machine = named != nullptr && *named != '\0' ? named : this_machine();
  std::string own = fmt::format("{}\n{}\n{}\n{}\n", comm.host(), cached_cpus(host).list(),
                                allowed_cpus().list(), machine);
  const auto length = static_cast<std::size_t>(comm.max(static_cast<double>(own.size())));
  own.resize(length, '\n');
  const std::string all = comm.gather(own);
  Fabric fabric;
  fabric.hosts.resize(static_cast<std::size_t>(comm.hosts()));
  std::vector<RankPlace> places(static_cast<std::size_t>(comm.size()));
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    std::istringstream seen(all.substr(rank * length, length));
    std::string at, cached, allowed;
    for (std::string* const line : {&at, &cached, &allowed, &places[rank].machine})
      std::getline(seen, *line);
    places[rank].host = std::stoi(at);
    places[rank].cpus = *CpuSet::parse(allowed);
    fabric.hosts[places[rank].host].caches = {{3, 0, {*CpuSet::parse(cached)}}};
  }
  return host_share(static_cast<std::size_t>(comm.rank()), places, fabric);
}

// Alike on all ranks. They may see different caches: they are on several hosts, or each in a
// container with CPUs of its own.
Surroundings agreed_surroundings(const perf::Comm& comm) {
  Host own;
  load_hwloc(own);
  const Thresholds seen = shm_options("auto", {}, own).thresholds;
  const HostShare share = own_share(comm, own);
  // The caches negated: the least of all, while one that is crowded makes all so.
  std::array<double, 4> most{-HUGE_VAL, -HUGE_VAL, -HUGE_VAL, share.crowded ? 1.0 : 0.0};
  if (seen.cache != Thresholds{}.cache)
    most = {-static_cast<double>(seen.cache), -static_cast<double>(seen.caches / seen.cache),
            -share.caches, most[3]};
  comm.max(most);
  Surroundings agreed;
  agreed.share.crowded = most[3] > 0;
  if (most[0] == -HUGE_VAL) return agreed;
  const std::vector<CpuSet> each(static_cast<std::size_t>(-most[1]));
  agreed.host.caches.push_back({3, static_cast<std::uint64_t>(-most[0]), each});
  agreed.share.caches = -most[2];
  return agreed;
}

}  // namespace

MeasuredSharedMemory measure_shared_memory(const perf::Comm& comm, std::size_t largest,
                                           double seconds) {
  MeasuredSharedMemory out;
  const int members = static_cast<int>(comm.max(HostGroup(comm, {}).size()));
  if (members == 1) return out;
  Measurement measurement(comm, largest, seconds);
  const Surroundings around = agreed_surroundings(comm);
  const auto thresholds = [&] {
    return shm_options("auto", out.ways, around.host, around.share).thresholds;
  };
  for (const auto way_of : {one_shot, read, direct}) {
    const Way way = way_of(thresholds(), members);
    out.ways.*way.threshold = measurement.find(way);
  }
  measurement.try_ways(thresholds(), out.ways);
  out.complete = measurement.is_complete();
  return out;
}

std::string line(const MeasuredSharedMemory& measured) {
  std::string text;
  const auto add = [&](const std::string& found) { text += (text.empty() ? "" : ", ") + found; };
  for (const TunedSharedMemory::Key& key : TunedSharedMemory::kKeys) {
    const std::optional<std::size_t>& bytes = measured.ways.*key.value;
    if (bytes)
      add(fmt::format("{} {}", key.name, *bytes == kNever ? "never" : format_size(*bytes)));
  }
  for (const TunedSharedMemory::TriedKey& key : TunedSharedMemory::kTriedKeys) {
    const int others = count_others(measured.ways.*key.found);
    if (others > 0)
      add(fmt::format("{} in {} of {} classes of calls", key.name, others, shm::kTrialClasses));
  }
  return fmt::format("# shared memory: {}{}\n",
                     text.empty() ? "as built in" : text + "; else as built in",
                     measured.complete ? "" : "; time was up before all was measured");
}

}  // namespace echelon::tune
