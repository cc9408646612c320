// SPDX-License-Identifier: Apache-2.0
// Messages between two GPUs' memories over a transport for host memory.
#include "transports/cuda/staged_transport.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <deque>
#include <thread>

#include "tests/support/ranks.h"
#include "transports/loopback/loopback_transport.h"

namespace echelon {
namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t bytes, unsigned seed) {
  Bytes all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + seed);
  return all;
}

// What two threads share to connect.
struct Meeting {
  std::vector<std::string> addresses = std::vector<std::string>(2);
  std::barrier<> both{2};
};

class Rank {
 public:
  Rank(int self, Meeting& meeting) {
    auto medium = open_loopback();
    meeting.addresses[static_cast<std::size_t>(self)] = medium->address();
    meeting.both.arrive_and_wait();
    auto host = medium->connect(self, meeting.addresses);
    meeting.both.arrive_and_wait();
    staged_.emplace(std::move(host), memory_, device_);
  }

  DeviceBytes upload(const Bytes& bytes) {
    DeviceBytes to = allocate_device(device_, std::max<std::size_t>(bytes.size(), 1));
    copy(to.get(), bytes.data(), bytes.size());
    return to;
  }
  Bytes download(const DeviceBytes& from, std::size_t bytes) {
    Bytes to(bytes);
    copy(to.data(), from.get(), bytes);
    return to;
  }

  // As an engine waits.
  void wait(const Completion& completion) {
    while (!completion.done) {
      if (staged_->progress() || !staged_->arm()) continue;
      staged_->sleep(std::chrono::seconds(10));
      staged_->disarm();
    }
  }

  StagedTransport& staged() { return *staged_; }
  CudaMemory& memory() { return memory_; }

 private:
  void copy(void* to, const void* from, std::size_t bytes) {
    memory_.copy(0, static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
    memory_.settle();
  }

  DeviceContext device_{*cuda_driver(), 0};
  CudaMemory memory_{device_, 1, CudaMemory::Arrival::kPinned};
  std::optional<StagedTransport> staged_;
};

void run(const std::function<void(int self, Rank& rank, Meeting& meeting)>& body) {
  ASSERT_NE(cuda_driver(), nullptr) << cuda_absence();
  if (kernel_image().empty()) GTEST_SKIP() << "this build has no GPU kernels: nvcc was not there";
  Meeting meeting;
  test::run_threads(2, [&](int self) {
    Rank rank(self, meeting);
    body(self, rank, meeting);
    meeting.both.arrive_and_wait();
  });
}

TEST(StagedTransport, CarriesMessagesOfAllSizesBothWaysAtOnce) {
  run([](int self, Rank& rank, Meeting&) {
    struct Message {
      DeviceBytes out, in;
      Completion sent, received;
    };
    const std::size_t sizes[] = {0, 1, 5, 4096, 65536, 65537, 1 << 20, 3 << 20};
    std::deque<Message> messages;
    for (int round = 0; round < 3; ++round) {
      messages.clear();
      for (Tag tag = 0; tag < std::size(sizes); ++tag) {
        const Bytes data = pattern(sizes[tag], static_cast<unsigned>(tag) + 100u * self);
        Message& m = messages.emplace_back();
        m.out = rank.upload(data);
        m.in = rank.upload(Bytes(sizes[tag]));
        rank.staged().receive(1 - self, tag, {m.in.get(), sizes[tag]}, m.received);
        rank.staged().send(1 - self, tag, {m.out.get(), sizes[tag]}, m.sent);
      }
      for (Tag tag = 0; tag < std::size(sizes); ++tag) {
        Message& m = messages[tag];
        rank.wait(m.received);
        rank.wait(m.sent);
        EXPECT_EQ(m.received.status, ECH_OK);
        EXPECT_EQ(m.sent.status, ECH_OK);
        EXPECT_EQ(m.received.peer, 1 - self);
        EXPECT_EQ(rank.download(m.in, sizes[tag]),
                  pattern(sizes[tag], static_cast<unsigned>(tag) + 100u * (1 - self)));
      }
    }
  });
}

TEST(StagedTransport, LeavesPinnedMemoryWhereItIs) {
  run([](int self, Rank& rank, Meeting&) {
    const Bytes data = pattern(100'000, 3);
    Completion completion;
    if (self == 0) {
      const DeviceBytes out = rank.upload(data);
      rank.staged().send(1, 7, {out.get(), data.size()}, completion);
      rank.wait(completion);
    } else {
      std::byte* in = rank.memory().reserve(0, Memory::Use::kIncoming, data.size());
      rank.staged().receive(0, 7, {in, data.size()}, completion);
      rank.wait(completion);
      EXPECT_EQ(std::memcmp(in, data.data(), data.size()), 0);
    }
    EXPECT_EQ(completion.status, ECH_OK);
  });
}

TEST(StagedTransport, AbortEndsWhatIsUnderWay) {
  run([](int self, Rank& rank, Meeting& meeting) {
    const DeviceBytes memory = rank.upload(Bytes(1000));
    Completion never, also;
    if (self == 0) {
      rank.staged().receive(1, 1, {memory.get(), 500}, never);
      rank.staged().receive(1, 2, {memory.get() + 500, 500}, also);
      for (int i = 0; i < 10; ++i) rank.staged().progress();
      EXPECT_FALSE(never.done);
      std::thread([&] { rank.staged().abort(); }).join();
      EXPECT_FALSE(rank.staged().arm()) << "there is news";
      rank.staged().progress();
      EXPECT_TRUE(never.done && also.done);
      EXPECT_EQ(never.status, ECH_ERR_ABORTED);
    }
    meeting.both.arrive_and_wait();
  });
}

}  // namespace
}  // namespace echelon
