// SPDX-License-Identifier: Apache-2.0
// How the engine waits, and how it ends what will not come.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "lib/base/time.h"
#include "lib/engine/engine.h"
#include "lib/engine/sleep.h"

namespace echelon {
namespace {

// Polls before a rank first gives way. Polling a network is a system call, and who waits for it
// waits for others that may need this core.
constexpr int kPollsOfNetwork = 2;
constexpr std::chrono::microseconds kBareYield{5};   // when nobody wants the core, at most
constexpr std::chrono::microseconds kBriefSpin{10};  // where plans wait for the network
// By which polling lasts longer, at most, for what others had of the core.
constexpr std::chrono::milliseconds kMostGivenAway{2};
// Segments that have not ended by which the network has enough to do while a rank naps.
constexpr std::size_t kSegmentsToNap = 3;
constexpr int kNapsInVain = 2;
constexpr std::chrono::milliseconds kLongestNap{1};
// Where a rank may not sleep: an eighth of the time that nothing has come, within bounds.
constexpr std::chrono::microseconds kShortestRefused{50}, kLongestRefused{10'000};
constexpr int kRefusedPerIdleness = 8;
constexpr std::chrono::milliseconds kBetweenQuestions{1};  // to the watch, in test()
constexpr std::chrono::milliseconds kLongestSleep{100};
constexpr std::chrono::milliseconds kWaitForNews{10}, kLongestWaitForNews{300};

}  // namespace

bool Engine::push() {
  if (progress()) return true;
  if (active_ > 0 || direct_.task != nullptr || parts_.transport == nullptr) return false;
  bool moved = false;
  if (failure_ == ECH_OK) or_fail([&] { moved = parts_.transport->progress(); });
  return moved;
}

bool Engine::all_left() {
  return active_ > 0 || failure_ != ECH_OK || parts_.transport == nullptr ||
         parts_.transport->all_left();
}

template <typename Done>
void Engine::wait_until(Done done, Wait& wait) {
  const int patience = parts_.transport ? kPollsOfNetwork : parts_.patience;
  int polls = 0;
  while (!done()) {
    const bool moved = push();
    polls = moved ? 0 : polls + 1;
    if (moved) end_idleness();
    // When something has come just now there is hardly more, where one segment is under way.
    const bool more = moved && active_ + queue_.size() > 1;
    const bool patient = polls < patience && (more || !sleeps_at_once(wait));
    if (!patient && !done()) give_way(wait);
  }
}

// What a rank has not sent on, others do not have: an operation that was done has failed when that
// does not leave.
template <typename Body>
void Engine::or_fail_too(Operation& operation, Body body) {
  const bool sound = failure_ == ECH_OK;
  or_fail(body);
  if (sound && failure_ != ECH_OK) operation.status_ = failure_;
}

void Engine::wait(Operation& operation) {
  Wait wait{&operation.task_, operation.sequence_, operation.task_.timeout, operation.deadline_,
            &operation};
  or_fail_too(operation, [&] { wait_until([&] { return operation.done_ && all_left(); }, wait); });
}

void Engine::wait(Operation& operation, const std::function<bool()>& enough) {
  Wait wait{&operation.task_, operation.sequence_, operation.task_.timeout, operation.deadline_,
            &operation};
  or_fail([&] { wait_until([&] { return operation.done_ || enough(); }, wait); });
}

bool Engine::test(Operation& operation) {
  const auto ended = [&] { return operation.done_ && all_left(); };
  if (ended()) return true;
  const bool moved = push();
  if (moved) end_idleness();
  if (ended()) return true;
  const auto now = Clock::now();
  Wait wait{&operation.task_, operation.sequence_, operation.task_.timeout, operation.deadline_};
  or_fail_too(operation, [&] {
    if (past_deadline(wait, now) || moved || now < ask_watch_at_) return;
    ask_watch_at_ = now + kBetweenQuestions;
    keep_waiting(wait, now);
  });
  return ended();
}

void Engine::drain(Clock::time_point deadline) {
  Wait wait{nullptr, 0, deadline - Clock::now(), deadline};
  or_fail([&] { wait_until([&] { return active_ == 0 && queue_.empty() && all_left(); }, wait); });
}

void Engine::wait_direct(const Task& task, std::uint64_t sequence, int lane) {
  Wait wait{&task, sequence, task.timeout, std::nullopt};
  wait_until([&] { return failure_ != ECH_OK || parts_.group->done(lane); }, wait);
}

bool Engine::past_deadline(Wait& wait, Clock::time_point now) {
  if (!wait.deadline) wait.deadline = now + wait.timeout;
  if (now < *wait.deadline) return false;
  std::string text = fmt::format(
      "{} did not end within {:.1f} s",
      wait.task != nullptr ? wait.task->signature.label(wait.sequence) : "what was pending",
      to_seconds(wait.timeout));
  if (!why_.empty()) text += "; " + why_;
  fail_here(ECH_ERR_TIMEOUT, text);
  return true;
}

// Nothing has come lately: looks at the deadline, and lets the watch find out why.
bool Engine::keep_waiting(Wait& wait, Clock::time_point now) {
  if (!idle_since_) idle_since_ = now;
  if (!stalled_since_) {
    stalled_since_ = now;
    why_.clear();
  }
  if (past_deadline(wait, now)) return false;
  if (parts_.watch != nullptr) why_ = parts_.watch->waiting(now - *stalled_since_);
  return true;
}

void Engine::end_idleness() {
  idle_since_.reset();
  given_away_ = {};
  refused_ = false;
}

// How long a rank may sleep without being woken by what comes; 0: not at all. Where a plan waits
// for the network, everything that comes wakes ranks, and each time they find caches and predictors
// as others have left them. While several segments are under way, what comes in the time of a
// message can as well be taken at once: the network has others to move. Not where segments end
// sooner than links as slow as the plan believes allow, and who has napped twice in vain sleeps to
// be woken.
std::chrono::nanoseconds Engine::time_to_nap(const Wait& wait, Clock::duration idle) const {
  const Operation* const operation = wait.operation;
  if (operation == nullptr || operation->segments_ < operation->ended_ + kSegmentsToNap) return {};
  const Program* const program = operation->task_.program;
  if (program == nullptr || segment_took_ < program->segment_time) return {};
  const auto time = std::min<Clock::duration>(program->message_time, kLongestNap);
  return idle < kNapsInVain * time ? time : Clock::duration{};
}

// Whether a rank that has been idle so long goes on polling. The time for which it gave its core
// away does not count: where a hypervisor shares the cores, who sleeps gets one back late. But what
// it gives way to may be ranks that poll as well, and none of them needs to where a plan waits for
// the network: there followers wait for long, messages take longer than being woken, and only
// leaders that wait for followers wait briefly.
bool Engine::polls_on(const Wait& wait, Clock::duration idle) const {
  if (!wait.for_network())
    return idle < parts_.spin + std::min<Clock::duration>(given_away_, kMostGivenAway);
  const bool for_long = !wait.task->program->needs_messages || awaits_messages();
  return idle < (for_long ? std::min<Clock::duration>(parts_.spin, kBriefSpin) : parts_.spin);
}

// Where a plan waits for the network a message takes longer than being woken: who awaits one has
// nothing to poll for, unless it may not sleep.
bool Engine::sleeps_at_once(const Wait& wait) const {
  return wait.for_network() && !refused_ && awaits_messages();
}

void Engine::yield(Clock::time_point now) {
  sched_yield();
  const auto took = Clock::now() - now;
  if (took <= kBareYield) return;
  given_away_ += took;
  counters_.gave_way += std::min<Clock::duration>(took, parts_.spin);
}

// Whether what is under way here sends or receives, or what it has sent may not have left. Who only
// takes part in calls of the group sleeps on that alone: a futex, where else its host's ranks send
// datagrams to be heard beside the network.
bool Engine::needs_network() {
  if (parts_.transport == nullptr) return false;
  const bool in_group = active_ > 0 || direct_.task != nullptr;
  const bool messages = std::ranges::any_of(lanes_, [](const auto& lane) {
    return lane->active() && lane->operation()->task_.program->needs_messages;
  });
  return !in_group || messages || !parts_.transport->all_left();
}

// Who awaits messages and no call of the group sleeps on the network alone: what ranks of its host
// do meanwhile is none of its business.
bool Engine::awaits_group() const {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->awaits_group(); });
}

// Refused again, and nothing has come in between. UCX wakes nobody for the room in shared memory
// that what was sent to a rank of this host waits for.
void Engine::nap_where_refused(Clock::duration idle) {
  if (!std::exchange(refused_, true)) return;
  ++counters_.waits;
  const Clock::duration nap = idle / kRefusedPerIdleness;
  std::this_thread::sleep_for(std::clamp<Clock::duration>(nap, kShortestRefused, kLongestRefused));
}

// Nothing came while polling: naps, or lets others run, later sleeps, at last gives up.
void Engine::give_way(Wait& wait) {
  const auto now = Clock::now();
  const bool first = !idle_since_;
  const auto idle = first ? Clock::duration{} : now - *idle_since_;
  const auto nap = time_to_nap(wait, idle);
  const bool at_once = sleeps_at_once(wait);
  if (!first && !at_once && nap.count() == 0 && polls_on(wait, idle)) return yield(now);
  if (!keep_waiting(wait, now)) return;
  if (nap.count() > 0) {
    ++counters_.waits;
    return std::this_thread::sleep_for(nap);
  }
  if (first && !at_once) return;
  const auto limit = std::min<Clock::duration>(*wait.deadline - now, kLongestSleep);
  const int fd = parts_.watch != nullptr ? parts_.watch->fd() : -1;
  Waitable* const network = needs_network() ? parts_.transport.get() : nullptr;
  Waitable* const group = at_once && !awaits_group() ? nullptr : parts_.group.get();
  const std::initializer_list<Waitable*> sources = {network, group, parts_.memory->news(),
                                                    parts_.also};
  if (sleep_until_news(sources, fd, limit)) {
    ++counters_.waits;
    refused_ = false;
    slept_on_network_ = network != nullptr;
  } else {
    nap_where_refused(idle);
  }
  const bool unheard = network == nullptr && Clock::now() - now >= limit;
  if (unheard && parts_.transport != nullptr) parts_.transport->progress();  // others may need it
  check_watch();
}

// A transport knows only that a rank is gone. Why, an abort for example, comes over the control
// connection, perhaps a moment later. When rank 0 is the one that has failed, every rank finds that
// out for itself, and the first to do so are gone before the last.
void Engine::fail_unless_known(ech_status status, const std::string& text) {
  const auto limit = Clock::now() + kLongestWaitForNews;
  while (parts_.watch != nullptr && failure_ == ECH_OK) {
    parts_.watch->ask();
    if (Clock::now() >= limit && !parts_.watch->in_doubt()) break;
    check_watch();
    const int fd = parts_.watch->fd();
    if (failure_ == ECH_OK) sleep_until_news({}, fd, kWaitForNews);
  }
  if (failure_ == ECH_OK) fail_here(status, text);
}

// What this rank found out for itself: all are told. Who was first names the culprit for all.
void Engine::fail_here(ech_status status, const std::string& text) {
  if (parts_.watch != nullptr && failure_ == ECH_OK) {
    parts_.watch->report({status, text});
    check_watch();
  }
  fail(status, text);
}

// The oldest operation under way: what a failure that others report interrupts here.
std::string Engine::pending() const {
  const Snapshot now = activity_.read();
  const EnteredCall* call = now.oldest_running();
  return call == nullptr ? "" : call->signature.label(call->sequence);
}

void Engine::check_watch() {
  if (parts_.watch == nullptr) return;
  try {
    parts_.watch->check();
  } catch (const Error& e) {
    const std::string mine = pending(), text = e.what();
    const bool said = mine.empty() || text.starts_with(mine);
    if (failure_ == ECH_OK) fail(e.code(), said ? text : mine + ": " + text);
  }
}

}  // namespace echelon
