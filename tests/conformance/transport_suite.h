// SPDX-License-Identifier: Apache-2.0
// The conformance suite of transports/transport.h. An implementation joins with
//   INSTANTIATE_TEST_SUITE_P(Name, TransportSuite, testing::Values(TransportKind{...}), kind_name);
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transports/transport.h"

namespace echelon::test {

struct TransportKind {
  std::string name;
  bool processes = false;  // ranks are processes, not threads
  std::function<std::unique_ptr<Medium>()> open;
  bool buffers = false;  // sends may be done before they have left
};

inline std::string kind_name(const testing::TestParamInfo<TransportKind>& info) {
  return info.param.name;
}

// What ranks share besides the transport: addresses, a barrier and a number. In memory that stays
// shared across fork().
class Board {
 public:
  static constexpr int kMaxRanks = 8;
  static constexpr std::size_t kMaxAddress = 8192;

  void publish(int rank, const std::string& address);
  std::vector<std::string> addresses(int ranks) const;  // once all have passed a barrier
  void arrive() { ++arrived_; }
  bool all_arrived(int ranks, int round) const { return arrived_ >= ranks * round; }
  std::atomic<int>& number() { return number_; }

 private:
  std::atomic<int> arrived_ = 0;
  std::atomic<int> number_ = 0;
  std::size_t lengths_[kMaxRanks] = {};
  char bytes_[kMaxRanks][kMaxAddress] = {};
};

// One rank's view.
class TestRank {
 public:
  TestRank(const TransportKind& kind, Board& board, int self, int size);

  int self() const { return self_; }
  int size() const { return size_; }
  Transport& transport() { return *transport_; }

  // Progresses, sleeping in between as an engine does, until `condition`; false after `limit`.
  bool wait(const std::function<bool()>& condition,
            std::chrono::milliseconds limit = std::chrono::seconds(20));
  bool wait(const Completion& completion) {
    return wait([&] { return completion.done; });
  }

  // Of all ranks; progresses meanwhile.
  void barrier();

  // Of all ranks, without progress: what one of them does next, none has heard of before.
  void meet();

  // One for all ranks; 0 at first.
  std::atomic<int>& number() { return board_.number(); }

 private:
  Board& board_;
  const int self_;
  const int size_;
  int round_ = 0;
  std::unique_ptr<Transport> transport_;
};

class TransportSuite : public testing::TestWithParam<TransportKind> {
 protected:
  // Runs `body` on each of n connected ranks, with a barrier before they disconnect.
  void run(int ranks, const std::function<void(TestRank&)>& body);

  // The same with processes, of which the last sends 8 bytes with tag 1 to every other and is
  // killed a moment later. `body` runs on the others.
  void run_with_victim(int ranks, const std::function<void(TestRank&)>& body);
};

// For those that detect the death of a peer's process, with transport_deaths.cc among the sources.
class MortalTransportSuite : public TransportSuite {};

// `n` bytes that depend on all three.
std::vector<std::byte> pattern(std::size_t n, int from, Tag tag);

}  // namespace echelon::test
