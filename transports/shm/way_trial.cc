// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/way_trial.h"

#include <algorithm>
#include <bit>

namespace echelon::shm {
namespace {

// Of each way the first half finds the lane's slots as the other way has left them, and does not
// count. A large call goes through all of them, a small one through one of two; where small calls
// go from place to place (rounds.h), the second half finds them as calls long before have left
// them.
constexpr std::size_t kLarge = std::size_t{4} << 20;
constexpr int kCallsOfLarge = 2, kCallsOfSmall = 4;

// Of all lanes: so most calls go the better known way, also where there are few of a size. (Of
// operations that use three lanes, two thirds are made on these, of those that use fewer all.)
constexpr int kLanes = 2;

// Such a lane makes so many trials of a class one after another, then one in so many calls.
constexpr int kTrialsAtOnce = 2, kPause = 256;

// A trial whose calls do not come any more is given up after so many others. Of large ones there
// may never be so many, and they lose most: they do not wait for the end of a smaller one's.
constexpr int kMostOthers = 64;

constexpr int kKept = 8;    // findings of a class
constexpr int kEnough = 2;  // to go by them

}  // namespace

int trial_class(const TrialCall& call) {
  const int doublings = std::bit_width(call.bytes / least_of_class(0)) - 1;
  const int size = std::clamp(doublings / 2, 0, kSizeClasses - 1);
  if (call.action != GroupAction::kAllgather) return size;
  return (call.one_owner ? 2 : 1) * kSizeClasses + size;
}

int calls_until_found() {
  constexpr int kTried = 3;  // stores, the kernel's copy, results
  return kTried * kTrialsAtOnce * 2 * kCallsOfSmall;
}

Finding finding_in(std::uint64_t word, int at_class) {
  return static_cast<Finding>(word >> 2 * at_class & 3);
}

std::uint64_t word_of(Finding finding, int at_class) {
  return static_cast<std::uint64_t>(finding) << 2 * at_class;
}

WayTrial::WayTrial(int lane, std::uint64_t known) : lane_(lane) {
  for (int c = 0; c < kTrialClasses; ++c)
    if (finding_in(known, c) != Finding::kUnknown) classes_[c] = {kTrialsAtOnce, kPause};
}

bool WayTrial::goes_other() const {
  return (at_ / calls_per_way() + lane_ + classes_[trial_class(*tried_)].trials) % 2 != 0;
}

int WayTrial::calls_per_way() const {
  return tried_->bytes >= kLarge ? kCallsOfLarge : kCallsOfSmall;
}

std::optional<bool> WayTrial::begin(const TrialCall& call) {
  if (lane_ >= kLanes) return std::nullopt;
  if (tried_ == call) {
    others_ = 0;
    return goes_other();
  }
  Class& own = classes_[trial_class(call)];
  const bool first = own.pause == 0 && call.bytes >= kLarge && tried_ && tried_->bytes < call.bytes;
  if (first || (tried_ && ++others_ > kMostOthers)) tried_.reset();
  if (tried_) return std::nullopt;
  if (own.pause > 0) {
    --own.pause;
    return std::nullopt;
  }
  tried_ = call;
  at_ = others_ = 0;
  least_.fill(Time::max());
  return goes_other();
}

Finding WayTrial::end(std::optional<Time> took, double pays) {
  const int calls = calls_per_way();
  Time& least = least_[goes_other() ? 1 : 0];
  if (at_ % calls >= calls / 2 && took) least = std::min(least, *took);
  if (++at_ < 2 * calls) return Finding::kUnknown;
  Class& own = classes_[trial_class(*tried_)];
  if (++own.trials >= kTrialsAtOnce) own.pause = kPause;
  tried_.reset();
  if (std::ranges::max(least_) == Time::max()) return Finding::kUnknown;
  return least_[1] < pays * least_[0] ? Finding::kOther : Finding::kUsual;
}

// As if that had been found just often enough.
Findings::Findings(std::uint64_t known) {
  for (int c = 0; c < kTrialClasses; ++c) {
    const Finding finding = finding_in(known, c);
    if (finding == Finding::kUnknown) continue;
    classes_[c].other = finding == Finding::kOther ? (1U << kEnough) - 1 : 0;
    classes_[c].noted = kEnough;
  }
}

void Findings::note(const TrialCall& call, Finding finding) {
  if (finding == Finding::kUnknown) return;
  Class& own = classes_[trial_class(call)];
  own.other = own.other << 1 | (finding == Finding::kOther ? 1 : 0);
  own.noted = std::min(own.noted + 1, kKept);
  own.own = true;
}

// Two thirds of the last findings.
Finding Findings::Class::finding() const {
  if (noted < kEnough) return Finding::kUnknown;
  const int said = std::popcount(other & ((1U << noted) - 1));
  return 3 * said >= 2 * noted ? Finding::kOther : Finding::kUsual;
}

std::uint64_t Findings::word() const {
  std::uint64_t word = 0;
  for (int c = 0; c < kTrialClasses; ++c) word |= word_of(classes_[c].finding(), c);
  return word;
}

std::uint64_t Findings::own_word() const {
  std::uint64_t word = 0;
  for (int c = 0; c < kTrialClasses; ++c)
    if (classes_[c].own) word |= word_of(classes_[c].finding(), c);
  return word;
}

}  // namespace echelon::shm
