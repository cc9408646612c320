// SPDX-License-Identifier: Apache-2.0
// In which order the group calls of an operation's segments are made, for group engines that need
// one order over all lanes: NCCL runs the calls of a communicator one after the other, and its
// members must agree on which comes first.
//
// The order depends on nothing but the operation, so that every member knows it, and nothing in it
// waits for what comes later: a segment's calls come in their order, and the first call of the
// segment that takes over a lane comes right after the last call of the one that had it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace echelon {

class Turns {
 public:
  Turns() : Turns(0, 0, 1) {}
  // Of an operation of `segments` segments with `calls` group calls each, on `lanes` lanes.
  Turns(std::uint64_t segments, std::uint64_t calls, std::uint64_t lanes)
      : segments_(segments), calls_(calls), lanes_(lanes) {}

  std::uint64_t count() const { return segments_ * calls_; }

  // In [0, count()), another for every call of every segment.
  std::uint64_t of(std::uint64_t segment, std::uint64_t call) const {
    if (calls_ <= 1) return segment;
    const std::uint64_t batch = segment / lanes_, lane = segment % lanes_;
    const std::uint64_t round = batch * (calls_ - 1) + call;
    return before_round(round) + before_lane(round, lane) +
           (call == 0 ? last_before(round, lane) : 0);
  }

 private:
  // Segments are taken in batches of one per lane. Round b (calls - 1) + j has call j of batch b;
  // so the last calls of a batch share a round with the first ones of the next.
  std::uint64_t in_batch(std::uint64_t batch) const {
    const std::uint64_t begin = batch * lanes_;
    return begin >= segments_ ? 0 : std::min(lanes_, segments_ - begin);
  }

  std::uint64_t before_round(std::uint64_t round) const {
    std::uint64_t before = 0;
    for (std::uint64_t call = 0; call < calls_ && call < round; ++call) {
      const std::uint64_t batches = (round - call + calls_ - 2) / (calls_ - 1);
      before += std::min(segments_, batches * lanes_);
    }
    return before;
  }

  bool is_shared(std::uint64_t round) const { return round % (calls_ - 1) == 0; }

  // Calls of lower lanes in the same round.
  std::uint64_t before_lane(std::uint64_t round, std::uint64_t lane) const {
    const std::uint64_t batch = round / (calls_ - 1);
    std::uint64_t before = std::min(lane, in_batch(batch));
    if (is_shared(round) && batch > 0) before += std::min(lane, in_batch(batch - 1));
    return before;
  }

  // 1 when the lane's last segment ends in the round in which a new one begins.
  std::uint64_t last_before(std::uint64_t round, std::uint64_t lane) const {
    const std::uint64_t batch = round / (calls_ - 1);
    return batch > 0 && lane < in_batch(batch - 1) ? 1 : 0;
  }

  std::uint64_t segments_, calls_, lanes_;
};

}  // namespace echelon
