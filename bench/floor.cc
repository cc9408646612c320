// SPDX-License-Identifier: Apache-2.0
// The floor of an allreduce of f32 between two ranks of a host: two threads, each bound to a core,
// that copy and add with the library's kernels and tell each other by flags. Staged: the other's
// buffers cannot be read, and everything goes through slots, from place to place. Streamed: the
// same, but slots are written past the cache. Shared: the other's buffers can be read. Each number
// is of the block size that is best for it, with results in the cache or past it. Copied: each only
// copies its input to its output, which is less than any allreduce can do. Line: a flag there and
// back, which tells whether the two cores share a cache; on a virtual machine that can change from
// second to second. Exits with 77, as a skipped test, where there is one core.
//   floor [bytes, such as 64KiB]...
//   floor line              the line alone: ns, and "near", or "far" where it takes more than 300
//   floor places [bytes]... the staged and the shared floor, near and far; 0.0: too seldom there
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/relax.h"
#include "lib/fabric/quantity.h"
#include "lib/reduce/kernels.h"
#include "lib/reduce/reduce.h"
#include "transports/shm/copy.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSlot = 512 << 10;  // through which smaller blocks go
constexpr std::size_t kBlocks[] = {64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20};
constexpr std::size_t kPiece = 8192;
constexpr double kSeconds = 0.3;          // for one size of blocks
constexpr double kQuick = 0.02;           // likewise, to be done while the cores are where they are
constexpr double kFar = 300e-9;           // a line there and back that takes longer
constexpr int kRounds = 12, kFewest = 3;  // of what is measured for places; medians are of so many
constexpr int kSkipped = 77;

enum class Way { kStaged, kStreamed, kShared, kCopied };

class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)), std::free) {
    if (!memory_) throw std::runtime_error(fmt::format("no {} bytes of memory", bytes));
    fill(bytes);
  }
  std::byte* at(std::size_t offset) const { return memory_.get() + offset; }

 private:
  // Not with zeros: some processors move those in two thirds of the time.
  void fill(std::size_t bytes) {
    float* const values = reinterpret_cast<float*>(memory_.get());
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i)
      values[i] = static_cast<float>(i % 1000) / 4;
  }

  std::unique_ptr<std::byte, void (*)(void*)> memory_;
};

// Rounds that its side has ended, ever.
struct alignas(64) Flag {
  std::atomic<std::uint64_t> rounds{0};
  void raise(std::uint64_t to) { rounds.store(to, std::memory_order_release); }
  void wait_for(std::uint64_t wanted) const {
    while (rounds.load(std::memory_order_acquire) < wanted) relax();
  }
};

// Of a side: its half of the buffer is what it adds up.
struct Side {
  Side(std::size_t bytes, std::size_t block)
      : input(bytes),
        output(bytes),
        block(block),
        places(std::max<std::size_t>(1, kSlot / block)),
        slots{Buffer(places * block), Buffer(places * block), Buffer(places * block),
              Buffer(places * block)} {}

  // Small blocks go on from place to place: a slot that the other has not read lately is quicker.
  std::byte* slot(std::uint64_t round) const { return place(0, round); }
  std::byte* result(std::uint64_t round) const { return place(2, round); }

  Flag staged, reduced, finished;
  Buffer input, output;

 private:
  std::byte* place(std::size_t first, std::uint64_t round) const {
    return slots[first + round % 2].at(round / 2 % places * block);
  }

  const std::size_t block, places;
  std::array<Buffer, 4> slots;  // two for what the other adds up, two for results
};

// The cores that this process may use, as it was started.
std::vector<int> cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) found.push_back(core);
  return found;
}

// To the first or the second of them.
void bind(int side) {
  static const std::vector<int> kCores = cores();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(kCores.at(static_cast<std::size_t>(side)), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0)
    throw std::runtime_error("a thread could not be bound to a core");
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

class Pair {
 public:
  // `past`: the results go past the cache.
  Pair(Way way, std::size_t bytes, std::size_t block, bool past)
      : way_(way), half_(bytes / 2), block_(std::min(block, half_)), past_(past) {
    for (auto& side : sides_) side = std::make_unique<Side>(bytes, block_);
  }

  // Seconds, the median of as many calls as take about `seconds`.
  double measure(double seconds = kSeconds) {
    const double once = run(3);
    return run(static_cast<int>(std::clamp(seconds / once, 5.0, 2000.0)));
  }

 private:
  double run(int calls) {
    std::vector<double> times;
    std::atomic<int> arrived{0};
    const auto rank = [&](int me) {
      bind(me);
      for (int call = 1; call <= calls; ++call) {
        ++arrived;
        while (arrived < 2 * call) relax();
        const auto begin = Clock::now();
        if (way_ == Way::kCopied)
          copy(me);
        else
          allreduce(me);
        if (me == 0) times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      }
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    return median(std::move(times));
  }

  void copy(int me) {
    Side &mine = *sides_[me], &other = *sides_[1 - me];
    const std::uint64_t calls = mine.finished.rounds.load(std::memory_order_relaxed) + 1;
    shm::deliver(mine.output.at(0), mine.input.at(0), 2 * half_, past_);
    mine.finished.raise(calls);
    other.finished.wait_for(calls);
  }

  // A round is staged while the one before is on its way.
  void allreduce(int me) {
    const std::uint64_t begin = sides_[me]->finished.rounds.load(std::memory_order_relaxed);
    const std::uint64_t end = begin + (half_ + block_ - 1) / block_;
    stage(me, begin, begin);
    for (std::uint64_t round = begin; round < end; ++round) {
      if (round + 1 < end) stage(me, round + 1, begin);
      reduce(me, round, begin);
      gather(me, round, begin);
    }
  }

  std::size_t offset(std::uint64_t round, std::uint64_t begin) const {
    return (round - begin) * block_;
  }
  std::size_t bytes(std::size_t offset) const { return std::min(block_, half_ - offset); }

  void stage(int me, std::uint64_t round, std::uint64_t begin) {
    Side &mine = *sides_[me], &other = *sides_[1 - me];
    const std::size_t at = offset(round, begin);
    if (round >= 2) other.finished.wait_for(round - 1);
    if (way_ != Way::kShared)
      shm::deliver(mine.slot(round), mine.input.at((1 - me) * half_ + at), bytes(at),
                   way_ == Way::kStreamed);
    mine.staged.raise(round + 1);
  }

  void reduce(int me, std::uint64_t round, std::uint64_t begin) {
    Side &mine = *sides_[me], &other = *sides_[1 - me];
    const std::size_t at = offset(round, begin), where = me * half_ + at;
    const bool slots = way_ != Way::kShared;
    std::byte* const result = slots ? mine.result(round) : mine.output.at(where);
    const Addends in{mine.input.at(where), slots ? other.slot(round) : other.input.at(where)};
    other.staged.wait_for(round + 1);
    if (way_ == Way::kStreamed)
      add_past_cache(in, result, mine.output.at(where), bytes(at));
    else
      add(in, result, bytes(at));
    if (way_ == Way::kStaged) shm::deliver(mine.output.at(where), result, bytes(at), past_);
    mine.reduced.raise(round + 1);
  }

  struct Addends {
    const std::byte *mine, *other;
  };

  static void add(const Addends& in, std::byte* out, std::size_t bytes) {
    echelon::reduce(ECH_FLOAT32, ECH_SUM, in.mine, in.other, out, bytes / sizeof(float));
  }

  void add_past_cache(const Addends& in, std::byte* slot, std::byte* out, std::size_t bytes) const {
    alignas(64) std::array<std::byte, kPiece> piece;
    for (std::size_t at = 0; at < bytes; at += kPiece) {
      const std::size_t some = std::min(kPiece, bytes - at);
      add({in.mine + at, in.other + at}, piece.data(), some);
      stream_copy(slot + at, piece.data(), some);
      shm::deliver(out + at, piece.data(), some, past_);
    }
  }

  void gather(int me, std::uint64_t round, std::uint64_t begin) {
    Side &mine = *sides_[me], &other = *sides_[1 - me];
    const std::size_t at = offset(round, begin), where = (1 - me) * half_ + at;
    other.reduced.wait_for(round + 1);
    const std::byte* const result =
        way_ != Way::kShared ? other.result(round) : other.output.at(where);
    shm::deliver(mine.output.at(where), result, bytes(at), past_);
    mine.finished.raise(round + 1);
  }

  const Way way_;
  const std::size_t half_, block_;
  const bool past_;
  std::array<std::unique_ptr<Side>, 2> sides_;
};

double measure(Way way, std::size_t bytes, std::size_t block) {
  return std::min(Pair(way, bytes, block, false).measure(),
                  Pair(way, bytes, block, true).measure());
}

// None larger than a side's half but the first.
std::vector<std::size_t> blocks(std::size_t bytes) {
  std::vector<std::size_t> some;
  for (const std::size_t block : kBlocks)
    if (some.empty() || block <= bytes / 2) some.push_back(block);
  return some;
}

std::string best(Way way, std::size_t bytes) {
  double least = 1e9;
  std::size_t of = 0;
  for (const std::size_t block : blocks(bytes)) {
    const double seconds = measure(way, bytes, block);
    if (seconds < least) of = std::min(block, bytes / 2);
    least = std::min(least, seconds);
  }
  return fmt::format("{:12.1f} {:>10}", least * 1e6, format_size(of));
}

// Seconds for a flag there and back, the median of some samples.
double there_and_back() {
  constexpr std::uint64_t kSamples = 11, kTimes = 5'000;
  std::array<Flag, 2> flags;
  std::thread other([&] {
    bind(1);
    for (std::uint64_t i = 1; i <= kSamples * kTimes; ++i) {
      flags[0].wait_for(i);
      flags[1].raise(i);
    }
  });
  bind(0);
  std::vector<double> times;
  for (std::uint64_t sample = 0, i = 0; sample < kSamples; ++sample) {
    const auto begin = Clock::now();
    for (const std::uint64_t end = i + kTimes; i < end;) {
      flags[0].raise(++i);
      flags[1].wait_for(i);
    }
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / kTimes);
  }
  other.join();
  return median(std::move(times));
}

bool are_far() { return there_and_back() > kFar; }

// Near and far: the least of the medians for each size of blocks, with results in the cache and
// past it; 0: not seen. What is measured while the cores move is left out.
std::array<double, 2> floor_of_places(Way way, std::size_t bytes) {
  std::map<std::tuple<bool, std::size_t, bool>, std::vector<double>> seen;
  bool before = are_far();
  for (int round = 0; round < kRounds; ++round)
    for (const std::size_t block : blocks(bytes))
      for (const bool past : {false, true}) {
        const double seconds = Pair(way, bytes, block, past).measure(kQuick);
        const bool after = are_far();
        if (before == after) seen[{after, block, past}].push_back(seconds);
        before = after;
      }
  std::array<double, 2> least{0, 0};
  for (const auto& [where, seconds] : seen) {
    if (std::ssize(seconds) < kFewest) continue;
    double& of_place = least[std::get<0>(where) ? 1 : 0];
    of_place = of_place == 0 ? median(seconds) : std::min(of_place, median(seconds));
  }
  return least;
}

void print_places(std::size_t bytes) {
  fmt::print("{:>8}", format_size(bytes));
  for (const Way way : {Way::kStaged, Way::kShared})
    for (const double seconds : floor_of_places(way, bytes)) fmt::print(" {:12.1f}", seconds * 1e6);
  fmt::print("\n");
}

void print_floors(std::size_t bytes) {
  fmt::print("{:>8}", format_size(bytes));
  for (const Way way : {Way::kStaged, Way::kStreamed, Way::kShared})
    fmt::print(" {}", best(way, bytes));
  fmt::print(" {:12.1f} {:9.0f}\n", measure(Way::kCopied, bytes, kPage) * 1e6,
             there_and_back() * 1e9);
}

std::vector<std::size_t> sizes_of(std::span<char* const> arguments) {
  std::vector<std::size_t> sizes;
  for (const char* argument : arguments) {
    const auto size = parse_size(argument);
    if (!size || *size < kPage || *size % kPage != 0)
      throw std::runtime_error(
          fmt::format("\"{}\" is no multiple of 4 KiB, such as 64KiB", argument));
    sizes.push_back(*size);
  }
  if (sizes.empty()) sizes = {64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20};
  return sizes;
}

int run(std::span<char* const> arguments) {
  if (cores().size() < 2) {
    fmt::print(stderr, "floor: needs two cores, and may use one\n");
    return kSkipped;
  }
  const std::string_view what = arguments.empty() ? "" : arguments[0];
  if (what == "line" && arguments.size() == 1) {
    const double seconds = there_and_back();
    fmt::print("{:.0f} {}\n", seconds * 1e9, seconds > kFar ? "far" : "near");
  } else if (what == "places") {
    fmt::print("{:>8} {:>12} {:>12} {:>12} {:>12}\n", "size", "staged near", "staged far",
               "shared near", "shared far");
    for (const std::size_t size : sizes_of(arguments.subspan(1))) print_places(size);
  } else {
    const auto sizes = sizes_of(arguments);
    fmt::print("{:>8}", "size");
    for (const char* way : {"staged", "streamed", "shared"})
      fmt::print(" {:>12} {:>10}", fmt::format("{}, us", way), "block");
    fmt::print(" {:>12} {:>9}\n", "copied, us", "line, ns");
    for (const std::size_t size : sizes) print_floors(size);
  }
  return 0;
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  try {
    return echelon::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "floor: {}\n", e.what());
    return 1;
  }
}
