// SPDX-License-Identifier: Apache-2.0
// How fast large messages get to other hosts: bytes, and the time while any of them was under way,
// from their start until the other side's confirmation was here. (That a transport has taken a
// message says little: sockets hold more than a link carries in a while.) A rank that sends to
// several hosts at once shares its link among them, so each of k counts 1/k of the time. What is
// sent beside them and not timed counts, too: it may have had its part of that time. So a link is
// at most thought to be faster than it is.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace echelon {

class LinkMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kSmallest = 16 << 10;  // of the messages that count

  struct Total {
    double bytes = 0, seconds = 0;
  };

  // Of `self`, whose own host does not count. No hosts: nothing does.
  LinkMeter(std::vector<int> host_of_rank, int self);

  bool wants(int peer, std::size_t bytes) const {
    return bytes >= kSmallest && !host_of_rank_.empty() && host_of_rank_[peer] != own_;
  }

  // For every message that it wants, in order of time.
  void began(int peer, Time now);
  void ended(int peer, std::size_t bytes, Time now);
  // Another one, of the same operation.
  void beside(int peer, std::size_t bytes) {
    links_[host_of_rank_[peer]].total.bytes += static_cast<double>(bytes);
  }

  // By host, since the last call.
  std::vector<Total> take(Time now);

 private:
  struct Link {
    Total total;
    int under_way = 0;
    double since = 0;  // share_, when it was last looked at
  };
  void pass(Time now);
  void look_at(Link& link);

  const std::vector<int> host_of_rank_;
  int own_ = -1;
  std::vector<Link> links_;  // by host
  int busy_ = 0;             // links with a message under way
  double share_ = 0;         // s that every busy link has had, had it been busy all the time
  Time passed_{};
};

}  // namespace echelon
