// SPDX-License-Identifier: Apache-2.0
#include "tests/support/late_memory.h"

namespace echelon::test {

constexpr int kQuestionsPerPiece = 3;

std::byte* LateMemory::reserve(int lane, Use use, std::size_t bytes) {
  if (!lanes_[lane].work.empty()) throw std::logic_error("reserve() on a lane with work under way");
  return host_.reserve(lane, use, bytes);
}

void LateMemory::add(int lane, std::function<void()> work) {
  lanes_[lane].work.push_back(std::move(work));
}

void LateMemory::copy(int lane, std::byte* to, const std::byte* from, std::size_t bytes) {
  add(lane, [=, this] { host_.copy(lane, to, from, bytes); });
}

void LateMemory::reduce(int lane, const Reduction& work) {
  std::vector<const std::byte*> sources(work.sources.begin(), work.sources.end());
  add(lane, [=, this] {
    Reduction late = work;
    late.sources = sources;
    host_.reduce(lane, late);
  });
}

void LateMemory::divide(int lane, const Division& work) {
  add(lane, [=, this] { host_.divide(lane, work); });
}

void LateMemory::scale(int lane, const Scaling& work) {
  add(lane, [=, this] { host_.scale(lane, work); });
}

bool LateMemory::done(int lane) {
  Lane& l = lanes_[lane];
  if (l.work.empty()) return true;
  if (++l.questions % kQuestionsPerPiece != 0) return false;
  l.work.front()();
  l.work.pop_front();
  return l.work.empty();
}

void LateMemory::settle() noexcept {
  for (Lane& lane : lanes_) {
    for (const auto& work : lane.work) work();
    lane.work.clear();
  }
}

}  // namespace echelon::test
