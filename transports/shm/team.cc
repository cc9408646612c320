// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/team.h"

#include <cstddef>
#include <utility>

#include "transports/shm/copy.h"

namespace echelon::shm {
namespace {

constexpr std::size_t kScratch = std::size_t{256} << 10;  // within a second-level cache

std::vector<std::uint32_t> pids(const std::vector<Member>& members) {
  std::vector<std::uint32_t> all;
  for (const Member& m : members) all.push_back(m.pid);
  return all;
}

}  // namespace

Team::Team(int own, std::vector<Segment> mapped, std::vector<Member> members,
           const KnownWays& before)
    : self(own),
      known(before),
      segments(std::move(mapped)),
      memory(pids(members)),
      scratch(kScratch),
      members_(std::move(members)),
      stores_(known.stores),
      reading_(known.reading),
      results_(known.results) {
  for (const Segment& segment : segments) bells_.push_back(&segment.bell());
  copy_piece();  // measured now, not in a call
  bells_[self]->reads_peers.store(try_reading() ? 2 : 1, std::memory_order_release);
}

bool Team::try_reading() {
  for (int m = 0; m < size(); ++m) {
    const std::uint64_t address = members_[m].header + offsetof(SegmentHeader, nonce);
    std::uint64_t nonce = 0;
    const ech_status status =
        memory.read(m, address, reinterpret_cast<std::byte*>(&nonce), sizeof nonce);
    if (status != ECH_OK || nonce != members_[m].nonce) return false;
  }
  return true;
}

Team::Readable Team::readable() {
  if (readable_ != Readable::kUnknown) return readable_;
  bool all = true;
  for (const BellLine* bell : bells_) {
    const std::uint32_t reads = bell->reads_peers.load(std::memory_order_acquire);
    if (reads == 0) return Readable::kUnknown;
    all = all && reads == 2;
  }
  return readable_ = all ? Readable::kYes : Readable::kNo;
}

void Team::note_stores(const TrialCall& call, Finding finding) {
  stores_.note(call, finding);
  bells_[self]->stores.store(stores_.own_word(), std::memory_order_relaxed);
}

void Team::note_reading(const TrialCall& call, Finding finding) {
  reading_.note(call, finding);
  bells_[self]->reading.store(reading_.own_word(), std::memory_order_relaxed);
}

Finding Team::agreed_on_stores(int at_class) const {
  const Finding found = agreed(&BellLine::stores, 3, at_class);
  return found != Finding::kUnknown ? found : finding_in(known.stores, at_class);
}

Finding Team::agreed_on_reading(int at_class) const {
  const Finding found = agreed(&BellLine::reading, 2, at_class);
  return found != Finding::kUnknown ? found : finding_in(known.reading, at_class);
}

Finding Team::agreed(std::atomic<std::uint64_t> BellLine::*found, int part, int at_class) const {
  int know = 0, other = 0;
  for (const BellLine* bell : bells_) {
    const Finding finding = finding_in((bell->*found).load(std::memory_order_relaxed), at_class);
    know += finding != Finding::kUnknown ? 1 : 0;
    other += finding == Finding::kOther ? 1 : 0;
  }
  if (know == 0) return Finding::kUnknown;
  return other > 0 && part * other >= know ? Finding::kOther : Finding::kUsual;
}

KnownWays Team::ways() const {
  KnownWays out{0, 0, results_.word()};
  for (int c = 0; c < kTrialClasses; ++c) {
    out.stores |= word_of(agreed_on_stores(c), c);
    out.reading |= word_of(agreed_on_reading(c), c);
  }
  return out;
}

}  // namespace echelon::shm
