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

Team::Team(int own, std::vector<Segment> mapped, std::vector<Member> members)
    : self(own),
      segments(std::move(mapped)),
      memory(pids(members)),
      scratch(kScratch),
      members_(std::move(members)) {
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
  bells_[self]->stores.store(stores_.word(), std::memory_order_relaxed);
}

void Team::note_reading(const TrialCall& call, Finding finding) {
  reading_.note(call, finding);
  bells_[self]->reading.store(reading_.word(), std::memory_order_relaxed);
}

Team::Votes Team::votes(std::atomic<std::uint64_t> BellLine::*found, const TrialCall& call) const {
  Votes out;
  for (const BellLine* bell : bells_) {
    const Finding finding = finding_in((bell->*found).load(std::memory_order_relaxed), call);
    out.known += finding != Finding::kUnknown ? 1 : 0;
    out.other += finding == Finding::kOther ? 1 : 0;
  }
  return out;
}

bool Team::past_pays(const TrialCall& call) const {
  const auto [known, other] = votes(&BellLine::stores, call);
  return other > 0 && 3 * other >= known;
}

bool Team::reading_pays(const TrialCall& call) const {
  const auto [known, other] = votes(&BellLine::reading, call);
  return other > 0 && 2 * other >= known;
}

}  // namespace echelon::shm
