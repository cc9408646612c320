// SPDX-License-Identifier: Apache-2.0
// Jobs on virtual clusters in which things go wrong, one job after the other, for a given time.
// Every rank that nothing was done to has to come to a good end: nobody hangs, no result is wrong,
// nothing leaks. Prints what it saw once a minute and a table in the end.
//
//   soak [SECONDS [SEED]]      as root; status 77 where there are no virtual clusters
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "tests/soak/faults.h"
#include "transports/ucx/ucx_leftovers.h"

namespace echelon::test {
namespace {

using cluster::Cluster;

constexpr int kSkipped = 77;
constexpr double kTimeout = 15, kHeartbeat = 3;  // s, as the ranks are told
// After its time every rank ends: with one more failure, a shrink that waits for one that does not
// come, and the farewell.
constexpr double kEndBound = 2 * (kTimeout + 2 * kHeartbeat) + 10;
constexpr double kCallBound = kTimeout + 3 * kHeartbeat + 5;
// Of a process, from its 40th call to its end: what the heap keeps and what UCX allocates once.
constexpr long kMostKib = 24 << 10, kMostKibPerShrink = 128;
constexpr long kMostDescriptors = 8;  // that UCX keeps for the process

struct Tally {
  int episodes = 0, ranks = 0, lost = 0, left_out = 0, not_made = 0;
  long calls = 0, shrinks = 0;
  int hangs = 0, wrong = 0, leaks = 0, crashes = 0;
  long longest = 0, most_descriptors = 0, most_kib = 0;  // ms of a call
  std::map<std::string, int> faults;

  int failures() const { return hangs + wrong + leaks + crashes; }
};

double since(long long begin) { return seconds(now() - begin); }

std::string folder_of_this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

class Soak {
 public:
  explicit Soak(std::uint64_t seed) : random_(seed) {}

  void run_episode();
  const Tally& tally() const { return tally_; }

 private:
  void judge(Job& job, const std::set<int>& lost, bool calm);
  void judge_end(const Rank& rank);
  void judge_host(const Cluster& cluster, int host);
  void report_hang(const Rank& rank);
  void complain(int& counter, const Rank& rank, const std::string& what);

  std::mt19937_64 random_;
  Tally tally_;
  std::string name_;  // of the episode
};

void Soak::complain(int& counter, const Rank& rank, const std::string& what) {
  ++counter;
  fmt::print("{}: rank {} on host{}: {}; it said:\n{}\n", name_, rank.number, rank.host, what,
             rank.text);
}

void Soak::report_hang(const Rank& rank) {
  complain(tally_.hangs, rank, "hangs");
  const std::string command = fmt::format(
      "gdb -p {} -batch -ex 'thread apply all bt 12' 2>&1 | grep '^[T#]'", rank.process);
  if (std::system(command.c_str()) != 0) fmt::print("no gdb here\n");
}

void Soak::judge_end(const Rank& rank) {
  long calls = 0, shrinks = 0, longest = 0, descriptors = 0, kib = 0, segments = 0;
  std::istringstream(*rank.said("end")) >> calls >> shrinks >> longest >> descriptors >> kib >>
      segments;
  tally_.calls += calls;
  tally_.shrinks += shrinks;
  tally_.longest = std::max(tally_.longest, longest);
  tally_.most_descriptors = std::max(tally_.most_descriptors, descriptors);
  tally_.most_kib = std::max(tally_.most_kib, kib);
  if (longest > kCallBound * 1e3) complain(tally_.hangs, rank, "was in one call for too long");
  if (descriptors > kMostDescriptors || segments > 0 ||
      kib > kMostKib + kMostKibPerShrink * shrinks)
    complain(tally_.leaks, rank, "leaks");
}

// After its ranks have ended, and what the next job there would do first.
void Soak::judge_host(const Cluster& cluster, int host) {
  remove_ucx_leftovers(fmt::format("/proc/{}/root/dev/shm", cluster.host(host).pid()));
  const int code = cluster.run(
      host, {"sh", "-c",
             "find /dev/shm -mindepth 1 -path '/dev/shm/.cluster*' -prune -o -mindepth 1 -print | "
             "grep . >&2; a=$?; tail -n +2 /proc/sysvipc/shm | grep . >&2; [ $a = 1 -a $? = 1 ]"});
  if (code == 0) return;
  ++tally_.leaks;
  fmt::print("{}: host{} keeps shared memory (above)\n", name_, host);
}

void Soak::judge(Job& job, const std::set<int>& lost, bool calm) {
  for (const Rank& rank : job.ranks()) {
    ++tally_.ranks;
    const bool hangs = rank.open;
    if (hangs) report_hang(rank);
    if (hangs) job.end(rank.number);
    const int code = job.exit_code(rank.number);
    if (rank.said("wrong")) complain(tally_.wrong, rank, "wrong");
    if (rank.said("end")) judge_end(rank);
    tally_.lost += lost.contains(rank.number);
    tally_.left_out += rank.said("leftout").has_value();
    tally_.not_made += rank.said("notmade").has_value();
    if (hangs || lost.contains(rank.number)) continue;
    const bool ended =
        rank.said("end") || (!calm && (rank.said("leftout") || rank.said("notmade")));
    if (code != 0 || !ended) complain(tally_.crashes, rank, fmt::format("ended with {}", code));
  }
}

void Soak::run_episode() {
  constexpr const char* kShapes[] = {"1x4:10gbit", "2x2:10gbit",  "4x1:10gbit",  "3+1:10gbit",
                                     "3x2:1gbit",  "2+1+1:1gbit", "1+3+2:10gbit"};
  const std::string shape = kShapes[random_() % std::size(kShapes)];
  const double length = std::uniform_real_distribution<double>(3, 9)(random_);
  const std::uint64_t seed = random_();
  const Cluster cluster(cluster::parse_spec(shape));
  const auto blows = draw_blows(random_, cluster, length, tally_.faults);
  name_ = fmt::format("episode {} ({})", ++tally_.episodes, shape);
  Job::Start start{500,
                   {},
                   {fmt::format("ECHELON_HEARTBEAT={}", kHeartbeat), "ECHELON_STALL=0.5",
                    fmt::format("ECHELON_TIMEOUT={}", kTimeout)}};
  start.argv = [&](int) {
    return std::vector<std::string>{folder_of_this_program() + "/soak_rank", std::to_string(seed),
                                    std::to_string(length)};
  };
  const long long begin = now();
  Job job(cluster, start);
  std::set<int> lost;
  std::size_t next = 0;
  const auto all_ended = [&] {
    for (; next < blows.size() && since(begin) >= blows[next].at; ++next)
      strike(blows[next], cluster, job, lost);
    return next == blows.size() && std::ranges::none_of(job.ranks(), &Rank::open);
  };
  const double limit = std::max(length, blows.empty() ? 0 : blows.back().at) + kEndBound;
  while (!job.listen([&] { return all_ended() || since(begin) > limit; })) continue;
  judge(job, lost, blows.empty());
  for (int host = 0; host < cluster.size(); ++host) judge_host(cluster, host);
}

void print_minute(const Tally& t, double at) {
  fmt::print(
      "{:5.0f} s: {} episodes, {} calls, {} shrinks; {} hangs, {} wrong, {} leaks, {} "
      "crashes\n",
      at, t.episodes, t.calls, t.shrinks, t.hangs, t.wrong, t.leaks, t.crashes);
  std::fflush(stdout);
}

void print_table(const Tally& t) {
  fmt::print("\nepisodes {}, ranks {}: killed {}, left out {}, not made {}\n", t.episodes, t.ranks,
             t.lost, t.left_out, t.not_made);
  fmt::print(
      "calls {} (checked on the ranks that came to an end), shrinks {}, longest call {} ms\n",
      t.calls, t.shrinks, t.longest);
  fmt::print("most descriptors kept {}, most memory grown {} KiB\n", t.most_descriptors,
             t.most_kib);
  for (const auto& [name, count] : t.faults) fmt::print("  {:<28} {:>6}\n", name, count);
  fmt::print("hangs {}, wrong results {}, leaks {}, crashes {}\n", t.hangs, t.wrong, t.leaks,
             t.crashes);
}

int run(double length, std::uint64_t seed) {
  fmt::print("soak of {:.0f} s with seed {}\n", length, seed);
  std::fflush(stdout);
  Soak soak(seed);
  const long long begin = now();
  double told = 0;
  do {
    soak.run_episode();
    if (since(begin) < told + 60) continue;
    told = since(begin);
    print_minute(soak.tally(), told);
  } while (since(begin) < length);
  print_table(soak.tally());
  return soak.tally().failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace echelon::test

int main(int argc, char** argv) {
  const double length = argc > 1 ? std::atof(argv[1]) : 600;
  const std::uint64_t seed =
      argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
  try {
    return echelon::test::run(length, seed);
  } catch (const echelon::Error& e) {
    fmt::print("{}\n", e.what());
    return e.code() == ECH_ERR_UNSUPPORTED ? echelon::test::kSkipped : 1;
  }
}
