// SPDX-License-Identifier: Apache-2.0
// What must arrive, and how.
#include <algorithm>

#include "tests/conformance/transport_suite.h"

namespace echelon::test {
namespace {

using Bytes = std::vector<std::byte>;

bool all_ok(const std::vector<Completion>& completions) {
  return std::all_of(completions.begin(), completions.end(),
                     [](const Completion& c) { return c.done && c.status == ECH_OK; });
}

bool all_done(const std::vector<Completion>& completions) {
  return std::all_of(completions.begin(), completions.end(),
                     [](const Completion& c) { return c.done; });
}

constexpr std::size_t kSizes[] = {0,    1,     8,      1000,          8191,   8192,
                                  8193, 65536, 262144, (1 << 20) + 1, 8 << 20};

TEST_P(TransportSuite, EverySizeArrivesUnchanged) {
  run(2, [](TestRank& rank) {
    for (const std::size_t size : kSizes) {
      const Tag tag = size;
      Completion completion;
      if (rank.self() == 0) {
        const Bytes data = pattern(size, 0, tag);
        rank.transport().send(1, tag, data, completion);
        ASSERT_TRUE(rank.wait(completion)) << size << " bytes";
      } else {
        Bytes data(size);
        rank.transport().receive(0, tag, data, completion);
        ASSERT_TRUE(rank.wait(completion)) << size << " bytes";
        EXPECT_TRUE(data == pattern(size, 0, tag)) << size << " bytes";
      }
      EXPECT_EQ(completion.status, ECH_OK);
      EXPECT_EQ(completion.peer, 1 - rank.self());
    }
  });
}

TEST_P(TransportSuite, TagsDecideNotTheOrder) {
  constexpr int kMessages = 20;
  run(2, [](TestRank& rank) {
    const int other = 1 - rank.self();
    std::vector<Completion> sent(kMessages);
    std::vector<Completion> received(kMessages);
    std::vector<Bytes> out;
    std::vector<Bytes> in(kMessages, Bytes(100));
    for (int i = 0; i < kMessages; ++i) out.push_back(pattern(100, rank.self(), i));
    for (int i = 0; i < kMessages; ++i) rank.transport().send(other, i, out[i], sent[i]);
    for (int i = kMessages - 1; i >= 0; --i) {
      rank.transport().receive(other, i, in[i], received[i]);
    }
    ASSERT_TRUE(rank.wait([&] { return all_done(sent) && all_done(received); }));
    EXPECT_TRUE(all_ok(sent) && all_ok(received));
    for (int i = 0; i < kMessages; ++i) EXPECT_TRUE(in[i] == pattern(100, other, i)) << "tag " << i;
  });
}

// Fills the connection while nobody receives, then makes progress only until all has left.
TEST_P(TransportSuite, WhatHasLeftArrivesWithoutProgressOfTheSender) {
  constexpr int kMost = 4000;
  constexpr std::size_t kBytes = 8000;
  run(2, [buffers = GetParam().buffers](TestRank& rank) {
    std::byte first{1};
    std::vector<Completion> messages(kMost + 1);
    if (rank.self() == 0) rank.transport().send(1, kMost, {&first, 1}, messages[kMost]);
    if (rank.self() == 1) rank.transport().receive(0, kMost, {&first, 1}, messages[kMost]);
    ASSERT_TRUE(rank.wait(messages[kMost]));
    rank.barrier();
    if (rank.self() == 0) {
      const Bytes data = pattern(kBytes, 0, 0);
      int sent = 0;
      do {
        rank.transport().send(1, sent, data, messages[sent]);
      } while (messages[sent++].done && sent < kMost && rank.transport().all_left());
      // Else the last bytes of a send that is done are never found waiting.
      EXPECT_TRUE(messages[sent - 1].done || !buffers);
      rank.number() = sent;
      rank.meet();
      EXPECT_TRUE(
          rank.wait([&] { return messages[sent - 1].done && rank.transport().all_left(); }));
      rank.meet();
      return;
    }
    rank.meet();
    for (int i = 0; i < rank.number(); ++i) {
      Bytes data(kBytes);
      rank.transport().receive(0, i, data, messages[i]);
      ASSERT_TRUE(rank.wait(messages[i])) << i << " of " << rank.number();
      EXPECT_TRUE(data == pattern(kBytes, 0, 0));
    }
    rank.meet();
  });
}

TEST_P(TransportSuite, TheHighestTagIsTheCallers) {
  run(2, [](TestRank& rank) {
    const Tag tag = (Tag{1} << 48) - 1;
    std::byte value{static_cast<unsigned char>(rank.self())};
    Completion completion;
    if (rank.self() == 0) rank.transport().send(1, tag, {&value, 1}, completion);
    if (rank.self() == 1) rank.transport().receive(0, tag, {&value, 1}, completion);
    ASSERT_TRUE(rank.wait(completion));
    EXPECT_EQ(value, std::byte{0});
  });
}

TEST_P(TransportSuite, ManyInFlightBothWays) {
  constexpr int kMessages = 256;
  constexpr std::size_t kBytes = 20000;
  run(2, [](TestRank& rank) {
    const int other = 1 - rank.self();
    std::vector<Completion> sent(kMessages);
    std::vector<Completion> received(kMessages);
    std::vector<Bytes> out;
    std::vector<Bytes> in(kMessages, Bytes(kBytes));
    for (int i = 0; i < kMessages; ++i) out.push_back(pattern(kBytes, rank.self(), i));
    for (int i = 0; i < kMessages; ++i) {
      rank.transport().receive(other, i, in[i], received[i]);
      rank.transport().send(other, i, out[i], sent[i]);
    }
    ASSERT_TRUE(rank.wait([&] { return all_done(sent) && all_done(received); }));
    EXPECT_TRUE(all_ok(sent) && all_ok(received));
    for (int i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(in[i] == pattern(kBytes, other, i)) << "message " << i;
    }
  });
}

TEST_P(TransportSuite, LargeMessagesCross) {
  constexpr std::size_t kBytes = 8 << 20;
  run(2, [](TestRank& rank) {
    const int other = 1 - rank.self();
    const Bytes out = pattern(kBytes, rank.self(), 7);
    Bytes in(kBytes);
    std::vector<Completion> both(2);
    rank.transport().send(other, 7, out, both[0]);
    rank.transport().receive(other, 7, in, both[1]);
    ASSERT_TRUE(rank.wait([&] { return all_done(both); }));
    EXPECT_TRUE(all_ok(both));
    EXPECT_TRUE(in == pattern(kBytes, other, 7));
  });
}

TEST_P(TransportSuite, FourRanksAllToAll) {
  constexpr int kRounds = 10;
  run(4, [](TestRank& rank) {
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t bytes = 1000 * round;
      const Bytes out = pattern(bytes, rank.self(), round);
      std::vector<Bytes> in(4, Bytes(bytes));
      std::vector<Completion> pending(8);
      for (auto& c : pending) c.done = true;
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == rank.self()) continue;
        rank.transport().receive(peer, 0, in[peer], pending[peer]);  // the same tag in all rounds
        rank.transport().send(peer, 0, out, pending[4 + peer]);
      }
      ASSERT_TRUE(rank.wait([&] { return all_done(pending); }));
      EXPECT_TRUE(all_ok(pending));
      for (int peer = 0; peer < 4; ++peer) {
        EXPECT_TRUE(peer == rank.self() || in[peer] == pattern(bytes, peer, round));
      }
    }
  });
}

TEST_P(TransportSuite, MessagesWaitForTheirReceive) {
  run(2, [](TestRank& rank) {
    const std::size_t sizes[] = {0, 8, 5000, 300000};
    std::vector<Completion> pending(4);
    std::vector<Bytes> data;
    for (int i = 0; i < 4; ++i) data.push_back(pattern(sizes[i], 0, i));
    if (rank.self() == 0) {
      for (int i = 0; i < 4; ++i) rank.transport().send(1, i, data[i], pending[i]);
      rank.wait([] { return false; }, std::chrono::milliseconds(20));
    }
    rank.barrier();
    if (rank.self() == 1) {
      for (Bytes& bytes : data) std::fill(bytes.begin(), bytes.end(), std::byte{0});
      for (int i = 0; i < 4; ++i) rank.transport().receive(0, i, data[i], pending[i]);
    }
    ASSERT_TRUE(rank.wait([&] { return all_done(pending); }));
    EXPECT_TRUE(all_ok(pending));
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(data[i] == pattern(sizes[i], 0, i)) << i;
  });
}

TEST_P(TransportSuite, ATagCanBeUsedAgainAndKeepsItsOrder) {
  run(2, [](TestRank& rank) {
    for (int i = 0; i < 200; ++i) {
      Completion completion;
      Bytes data = pattern(64, rank.self(), i);
      if (i % 2 == rank.self()) {
        rank.transport().send(1 - rank.self(), 5, data, completion);
      } else {
        rank.transport().receive(1 - rank.self(), 5, data, completion);
      }
      ASSERT_TRUE(rank.wait(completion));
      EXPECT_TRUE(data == pattern(64, i % 2, i)) << "message " << i;
    }
  });
}

TEST_P(TransportSuite, CountersCountWhatWasSent) {
  run(2, [](TestRank& rank) {
    EXPECT_EQ(rank.transport().counters().messages, 0u);
    std::vector<Completion> pending(6);
    Bytes data(600);
    for (std::size_t i = 0; i < 6; ++i) {
      const std::span part(data.data() + 100 * i, 10 * i);
      if (rank.self() == 0) rank.transport().send(1, i, part, pending[i]);
      if (rank.self() == 1) rank.transport().receive(0, i, part, pending[i]);
    }
    ASSERT_TRUE(rank.wait([&] { return all_done(pending); }));
    EXPECT_EQ(rank.transport().counters().messages, rank.self() == 0 ? 6u : 0u);
    EXPECT_EQ(rank.transport().counters().bytes, rank.self() == 0 ? 150u : 0u);
  });
}

}  // namespace
}  // namespace echelon::test
