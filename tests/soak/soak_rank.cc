// SPDX-License-Identifier: Apache-2.0
// One rank of the soak, started with the variables of `echelon run`. Until its time is over it
// calls what a generator says that all ranks share, checks every result bit for bit, and shrinks
// its communicator when that fails. SIGUSR1 makes it abort, SIGUSR2 exit. In the end it says one of
//   end CALLS SHRINKS LONGEST_MS FDS_MORE ANON_KIB_MORE SEGMENTS
//   leftout | notmade | wrong, and why
//
//   soak_rank SEED SECONDS
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/soak/calls.h"
#include "tests/soak/usage.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmCalls = 40;       // then its memory is looked at first
constexpr int kCallsUntilAsked = 8;  // whether the time is over

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(4);
}

class Rank {
 public:
  Rank(std::uint64_t seed, double seconds)
      : seed_(seed), end_(Clock::now() + std::chrono::milliseconds(int(seconds * 1e3))) {}

  int run();
  void abort();

 private:
  template <typename Function>
  ech_status timed(Function&& function);
  bool meet();
  bool work();
  bool time_is_over(bool& over);
  bool shrink();
  void replace(ech_comm* next);
  void report();

  const std::uint64_t seed_;
  const Clock::time_point end_;
  const int id_ = std::atoi(std::getenv("ECHELON_RANK"));
  std::mutex mutex_;  // guards comm_ against abort()
  ech_comm* comm_ = nullptr;
  Calls calls_;
  std::int64_t generation_ = 0;
  int shrinks_ = 0;
  double longest_ = 0;  // s, of all calls
  Usage before_ = usage(), warm_{};
};

void Rank::abort() {
  const std::lock_guard lock(mutex_);
  if (comm_ != nullptr) ech_comm_abort(comm_);
}

void Rank::replace(ech_comm* next) {
  ech_comm* last = nullptr;
  {
    const std::lock_guard lock(mutex_);
    last = std::exchange(comm_, next);
  }
  if (last != nullptr) timed([&] { return ech_comm_destroy(last); });
}

template <typename Function>
ech_status Rank::timed(Function&& function) {
  const auto begin = Clock::now();
  const ech_status status = function();
  longest_ = std::max(longest_, std::chrono::duration<double>(Clock::now() - begin).count());
  return status;
}

// Who is here, and from where on all go: ranks may have come different ways.
bool Rank::meet() {
  int size = 0;
  ech_comm_size(comm_, &size);
  const std::int64_t mine[2] = {id_, generation_};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(size));
  if (timed([&] { return ech_allgather(mine, all.data(), 2, ECH_INT64, comm_); }) != ECH_OK)
    return false;
  std::vector<int> ids;
  for (int r = 0; r < size; ++r) {
    ids.push_back(static_cast<int>(all[2 * r]));
    generation_ = std::max(generation_, all[2 * r + 1]);
  }
  ++generation_;
  calls_.begin(seed_ + static_cast<std::uint64_t>(generation_) * 1'000'003, ids, id_);
  return true;
}

bool Rank::time_is_over(bool& over) {
  const std::int32_t mine = Clock::now() >= end_ ? 1 : 0;
  std::int32_t any = 0;
  const ech_status status =
      timed([&] { return ech_allreduce(&mine, &any, 1, ECH_INT32, ECH_MAX, comm_); });
  over = any != 0;
  return status == ECH_OK;
}

// Whether it went well to the end.
bool Rank::work() {
  for (int n = 0;; ++n) {
    bool over = false;
    if (n % kCallsUntilAsked == 0 && !time_is_over(over)) return false;
    if (over) return true;
    if (timed([&] { return calls_.next(comm_); }) != ECH_OK) return false;
    if (calls_.made() == kWarmCalls) warm_ = usage();
  }
}

// Whether there is a communicator to go on with; says why not.
bool Rank::shrink() {
  ech_comm* survivors = nullptr;
  ech_status status = ECH_ERR_PEER;
  while (status == ECH_ERR_PEER || status == ECH_ERR_TIMEOUT)
    status = timed([&] { return ech_comm_shrink(comm_, &survivors); });
  if (status != ECH_OK) {
    say((status == ECH_ERR_ABORTED ? "leftout " : "wrong shrink: ") +
        std::string(ech_last_error()));
    return false;
  }
  ++shrinks_;
  replace(survivors);
  return true;
}

void Rank::report() {
  const bool was_warm = calls_.made() >= kWarmCalls;
  const long grown = was_warm ? usage().anonymous - warm_.anonymous : 0;
  replace(nullptr);
  const Usage after = usage();
  say("end " + std::to_string(calls_.made()) + " " + std::to_string(shrinks_) + " " +
      std::to_string(static_cast<long>(longest_ * 1e3)) + " " +
      std::to_string(after.descriptors - before_.descriptors) + " " + std::to_string(grown) + " " +
      std::to_string(after.segments));
}

int Rank::run() {
  ech_comm* made = nullptr;
  if (ech_comm_create(&made, nullptr) != ECH_OK) {
    say("notmade " + std::string(ech_last_error()));
    return 0;
  }
  say("in");
  replace(made);
  while (!meet() || !work()) {
    const std::string text = ech_last_error();
    if (!calls_.wrong().empty()) break;
    say("failed " + text);
    if (!shrink()) return 0;
  }
  if (!calls_.wrong().empty()) {
    say("wrong " + calls_.wrong());
    return 1;
  }
  report();
  return 0;
}

void serve_signals(Rank& rank, const sigset_t& signals) {
  for (int number = 0; sigwait(&signals, &number) == 0;) {
    if (number == SIGUSR2) _exit(0);
    rank.abort();
  }
}

}  // namespace
}  // namespace echelon::test

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  static echelon::test::Rank rank(std::strtoull(argv[1], nullptr, 10), std::atof(argv[2]));
  std::thread([signals] { echelon::test::serve_signals(rank, signals); }).detach();
  const int code = rank.run();
  fflush(nullptr);
  _exit(code);
}
