// SPDX-License-Identifier: Apache-2.0
// Allreduce of f32 through the shared-memory engine, each variant forced, beside the bytes that
// the variant has to move. Usage: shm_bench [ranks [largest-bytes]]
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "transports/shm/shared_alloc.h"
#include "transports/shm/shm_group.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxRanks = 64;
constexpr std::size_t kSizes[] = {8,         1 << 10, 8 << 10,  64 << 10,
                                  256 << 10, 1 << 20, 16 << 20, 64 << 20};

// Where the ranks of a run find each other. Shared and zero from the start.
struct Page {
  std::atomic<int> arrived;
  std::size_t lengths[kMaxRanks];
  char addresses[kMaxRanks][256];
};

struct Setting {
  const char* name;
  shm::Thresholds thresholds;
  bool shared;  // buffers from shared_alloc()
  // Bytes that one rank reads and writes for n ranks and 1 byte of data.
  double (*traffic)(double n);
};

// The ranks meet once more: `times` counts from 1.
void meet(Page& page, int size, int times) {
  ++page.arrived;
  while (page.arrived < size * times) sched_yield();
}

std::unique_ptr<GroupEngine> join(Page& page, int self, int size, int group,
                                  const Setting& setting) {
  ShmOptions options;
  options.thresholds = setting.thresholds;

  std::unique_ptr<GroupMedium> medium = make_shm_group(options);
  const std::string own = medium->address();
  page.lengths[self] = own.size();
  std::memcpy(page.addresses[self], own.data(), own.size());
  meet(page, size, 2 * group + 1);
  std::vector<std::string> all;
  for (int m = 0; m < size; ++m) all.emplace_back(page.addresses[m], page.lengths[m]);
  std::unique_ptr<GroupEngine> engine = medium->connect(self, all);
  meet(page, size, 2 * group + 2);
  return engine;
}

void await(GroupEngine& engine, bool crowded) {
  int idle = 0;
  const int spins = crowded ? 2 : 20000;
  while (!engine.done(0)) {
    if (engine.progress()) {
      idle = 0;
    } else if (++idle >= spins) {
      sched_yield();
      if (idle < spins + 3 || !engine.arm()) continue;
      engine.sleep(std::chrono::seconds(1));
      engine.disarm();
      idle = 0;
    }
  }
}

struct Times {
  double median = 0, low = 0;  // us; low: the tenth percentile
};

struct Task {
  std::vector<Setting> settings;
  std::size_t largest;
};

using Memory = std::unique_ptr<void, void (*)(void*)>;

Memory allocate(std::size_t bytes, bool shared) {
  Memory memory(shared ? shared_alloc(bytes) : std::malloc(bytes),
                shared ? shared_free : std::free);
  std::memset(memory.get(), 1, bytes);
  return memory;
}

Times measure(GroupEngine& engine, std::size_t bytes, bool crowded, bool shared) {
  const Memory in = allocate(bytes, shared), out = allocate(bytes, shared);
  const GroupPart part{0, 0, bytes, 0};
  const GroupWork work{GroupAction::kAllreduce,
                       ECH_FLOAT32,
                       ECH_SUM,
                       static_cast<const std::byte*>(in.get()),
                       static_cast<std::byte*>(out.get()),
                       {&part, 1}};
  const int batch = bytes <= 8192 && !crowded ? 100 : 1;
  const int batches = static_cast<int>(std::clamp<std::size_t>((96 << 20) / bytes, 8, 400));
  std::vector<double> times;
  for (int b = -2; b < batches; ++b) {
    engine.start(0, {});
    await(engine, crowded);
    const auto begin = Clock::now();
    for (int i = 0; i < batch; ++i) {
      engine.start(0, work);
      await(engine, crowded);
    }
    const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
    if (b >= 0) times.push_back(time.count() / batch);
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() / 10]};
}

void report(int size, const Setting& setting, std::size_t bytes, const Times& t) {
  const double moved = setting.traffic(size) * double(bytes);
  fmt::print("{:>5} {:>10}  {:<16} {:>12.2f} {:>12.2f} {:>14.0f} {:>8.1f}\n", size, bytes,
             setting.name, t.median, t.low, moved, moved / t.low / 1e3);
  fflush(stdout);
}

// All settings of one size follow each other, for the machine's speed changes with time.
void rank(Page& page, int self, int size, const Task& task) {
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(self % cores, &set);
  sched_setaffinity(0, sizeof set, &set);
  std::vector<std::unique_ptr<GroupEngine>> engines;
  for (const Setting& setting : task.settings)
    engines.push_back(join(page, self, size, int(engines.size()), setting));
  for (std::size_t bytes : kSizes) {
    if (bytes > task.largest) break;
    for (std::size_t i = 0; i < engines.size(); ++i) {
      const Setting& setting = task.settings[i];
      const Times t = measure(*engines[i], bytes, size > cores, setting.shared);
      if (self == 0) report(size, setting, bytes, t);
    }
  }
}

void run(int size, const Task& task) {
  auto* page = static_cast<Page*>(
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (page == MAP_FAILED) throw system_error("map page");
  for (int self = 0; self < size; ++self) {
    if (fork() != 0) continue;
    try {
      rank(*page, self, size, task);
    } catch (const std::exception& e) {
      fmt::print(stderr, "rank {}: {}\n", self, e.what());
    }
    fflush(stdout);
    _exit(0);
  }
  while (::wait(nullptr) > 0) continue;
  munmap(page, sizeof(Page));
}

shm::Thresholds thresholds(std::size_t one_shot, std::size_t read) {
  shm::Thresholds t;
  t.one_shot = t.one_shot_pair = one_shot;
  t.read = read;
  return t;
}

constexpr std::size_t kNever = SIZE_MAX;

// Reading and writing what the other ranks own.
double out(double n) { return 2 * (n - 1) / n; }

constexpr const char* kUsage = "usage: shm_bench [RANKS [LARGEST-BYTES]]\n";

// Nothing when it is no number.
std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  using namespace echelon;
  const bool help =
      argc > 1 && (argv[1] == std::string_view("--help") || argv[1] == std::string_view("-h"));
  const std::optional<std::size_t> ranks = argc > 1 ? number(argv[1]) : 0;
  const std::optional<std::size_t> most = argc > 2 ? number(argv[2]) : SIZE_MAX;
  if (help || argc > 3 || !ranks || !most) {
    fmt::print(help ? stdout : stderr, "{}", kUsage);
    return help ? 0 : 2;
  }
  const std::vector<Setting> settings = {
      {"chosen", {}, false, [](double) { return 0.0; }},
      // copy in; read all, write the result
      {"one-shot", thresholds(kNever, kNever), false, [](double n) { return 2 + n + 1; }},
      // copy in; reduce 1/n of n inputs into a slot and copy it on; copy out
      {"staged", thresholds(0, kNever), false,
       [](double n) { return out(n) + (n + 3) / n + out(n); }},
      // copy to scratch; reduce 1/n of n inputs; copy from the owners
      {"read", thresholds(0, 0), false, [](double n) { return out(n) + (n + 1) / n + out(n); }},
      {"one-shot direct", thresholds(kNever, kNever), true, [](double n) { return n + 1; }},
      {"staged direct", thresholds(0, kNever), true, [](double n) { return (n + 1) / n + out(n); }},
  };
  fmt::print("{:>5} {:>10}  {:<16} {:>12} {:>12} {:>14} {:>8}\n", "ranks", "bytes", "variant",
             "median us", "p10 us", "bytes moved", "GB/s p10");
  fflush(stdout);
  for (int size : {2, 4, 8}) {
    if (*ranks != 0 && *ranks != static_cast<std::size_t>(size)) continue;
    run(size, {settings, *most});
  }
  return 0;
}
