// SPDX-License-Identifier: Apache-2.0
// What the lanes of one engine share: the members' segments and memory, and how to wake them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/pages.h"
#include "transports/shm/bell.h"
#include "transports/shm/peer_memory.h"
#include "transports/shm/segment.h"
#include "transports/shm/way_trial.h"

namespace echelon::shm {

// A member as its address describes it.
struct Member {
  std::uint32_t pid;
  std::uint64_t nonce;
  std::uint64_t header;  // where its segment is in its own address space
};

class Team {
 public:
  // `segments` and `members` in group order. Tries whether the others' memory can be read and
  // tells them.
  Team(int self, std::vector<Segment> segments, std::vector<Member> members,
       const KnownWays& known);

  const int self;
  const KnownWays known;  // from the start
  const std::vector<Segment> segments;
  PeerMemory memory;
  const Pages scratch;            // for what is read of others
  std::uint64_t bytes_taken = 0;  // from others

  // Set when a lane could not read a member's memory.
  ech_status failure = ECH_OK;
  int unreadable = -1;
  void fail(int member, ech_status status) {
    failure = status;
    unreadable = member;
  }

  int size() const { return static_cast<int>(segments.size()); }

  // Wakes members that sleep. After every flag.
  void announce(Bell& bell, Flag flag = Flag::kData) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // bell.h, invariant 1
    wake(bell, flag);
  }

  // Without the fence: misses who goes to sleep in the moment in which the flag is on its way.
  void wake(Bell& bell, Flag flag = Flag::kData) const {
    for (int m = 0; m < size(); ++m)
      if (Bell::hears(*bells_[m], flag) && m != self) bell.ring(*bells_[m], members_[m].nonce);
  }

  // What a trial with such calls has found, of this member. Tells the others.
  void note_stores(const TrialCall& call, Finding finding);
  void note_reading(const TrialCall& call, Finding finding);

  // Whether writing past the cache pays for a third or more of those who know.
  bool past_pays(const TrialCall& call) const {
    return agreed_on_stores(trial_class(call)) == Finding::kOther;
  }

  // Whether it pays for half of them or more that the kernel copies what they gather.
  bool reading_pays(const TrialCall& call) const {
    return agreed_on_reading(trial_class(call)) == Finding::kOther;
  }

  // Whether it pays that results bypass the cache, which concerns nobody else; nothing: unknown.
  void note_results(const TrialCall& call, Finding finding) { results_.note(call, finding); }
  std::optional<bool> results_bypass(const TrialCall& call) const {
    const Finding found = finding_in(results_.word(), trial_class(call));
    return found == Finding::kUnknown ? std::nullopt : std::optional(found == Finding::kOther);
  }

  // What this member goes by.
  KnownWays ways() const;

  // Whether every member can read every other's memory; unknown until all have tried.
  enum class Readable { kUnknown, kNo, kYes };
  Readable readable();

 private:
  // kOther where it pays for one in `part` or more of those who have found something, if any.
  Finding agreed(std::atomic<std::uint64_t> BellLine::*found, int part, int at_class) const;
  Finding agreed_on_stores(int at_class) const;  // else what was known
  Finding agreed_on_reading(int at_class) const;
  bool try_reading();

  const std::vector<Member> members_;
  std::vector<BellLine*> bells_;
  Findings stores_, reading_, results_;
  Readable readable_ = Readable::kUnknown;
};

}  // namespace echelon::shm
