// SPDX-License-Identifier: Apache-2.0
// What only UCX has: settings, and what it says when they do not fit. Apart from the suite,
// which forks and so wants a process that has not used UCX.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "lib/base/error.h"
#include "tests/support/few_descriptors.h"
#include "tests/support/temp_folder.h"
#include "transports/ucx/ucx.h"
#include "transports/ucx/ucx_address.h"
#include "transports/ucx/ucx_leftovers.h"

namespace echelon::test {
namespace {

std::string error_of(const UcxConfig& config) {
  try {
    open_ucx(config);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(UcxConfigTest, ADeviceThatIsNotThereIsNamed) {
  UcxConfig config;
  config.devices = {"nosuch7"};
  config.tls = "tcp";
  EXPECT_NE(error_of(config).find("nosuch7"), std::string::npos) << error_of(config);
}

TEST(UcxConfigTest, AValueThatUcxDoesNotTakeIsNamed) {
  UcxConfig config;
  config.settings = {{"RNDV_THRESH", "plenty"}};
  EXPECT_NE(error_of(config).find("RNDV_THRESH to 'plenty'"), std::string::npos)
      << error_of(config);
}

TEST(UcxConfigTest, WhatTheUserSetStays) {
  UcxConfig config;
  config.tls = "nonsense";
  config.user_set = [](std::string_view variable) { return variable == "UCX_TLS"; };
  EXPECT_EQ(error_of(config), "no error");  // the user's UCX_TLS, here UCX's default
}

TEST(UcxConfigTest, ConnectChecksItsArguments) {
  UcxConfig config;
  config.tls = "tcp";
  const auto medium = open_ucx(config);
  const std::vector<std::string> addresses(2, medium->address());
  EXPECT_THROW(medium->connect(2, addresses), Error);
  EXPECT_THROW(medium->connect(-1, addresses), Error);
  EXPECT_NE(medium->connect(0, addresses), nullptr);
  EXPECT_THROW(medium->connect(0, addresses), Error);
}

// UCX itself would read beyond the end of most of these.
TEST(UcxConfigTest, DamagedAddressesAreRefused) {
  UcxConfig config;
  config.tls = "tcp";
  const std::string good = open_ucx(config)->address();
  std::vector<std::string> bad = {"", good + "x", good.substr(0, good.size() - 1),
                                  good.substr(0, 20), std::string(good.size(), '\0')};
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    bad.push_back(good);
    bad.back()[byte] = static_cast<char>(good[byte] ^ 0x10);
  }
  for (const std::string& address : bad) {
    try {
      unpack_ucx_address(address, 3);
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_INVALID);
      EXPECT_NE(std::string(e.what()).find("rank 3"), std::string::npos) << e.what();
    }
  }
  const auto medium = open_ucx(config);
  EXPECT_THROW(medium->connect(0, std::vector<std::string>{good, good.substr(1)}), Error);
}

TEST(UcxResourcesTest, FindsTcpOnTheLoopbackDevice) {
  const std::vector<UcxResource> resources = ucx_resources();
  const bool tcp = std::ranges::any_of(resources, [](const UcxResource& r) {
    return r.transport == "tcp" && r.device == "lo" && r.network;
  });
  EXPECT_TRUE(tcp) << resources.size() << " others";
  for (const UcxResource& r : resources) EXPECT_FALSE(r.network && r.transport == "self");
  const UcxVersions versions = ucx_versions();
  EXPECT_EQ(versions.loaded.substr(0, versions.built.size()), versions.built);
}

// UCX itself would end the process, or some later connection of another rank would.
TEST(UcxTransportTest, ANewConnectionWithoutDescriptorsFailsThatPeerOnly) {
  UcxConfig config;
  config.tls = "tcp";
  config.devices = {"lo"};
  auto one = open_ucx(config);
  auto two = open_ucx(config);
  auto three = open_ucx(config);
  const std::vector<std::string> addresses = {one->address(), two->address(), three->address()};
  auto sender = one->connect(0, addresses);
  auto receiver = two->connect(1, addresses);
  std::byte value{42}, received{0};
  const auto exchange = [&](Tag tag) {
    Completion sent, got;
    sender->send(1, tag, {&value, 1}, sent);
    receiver->receive(0, tag, {&received, 1}, got);
    while (!sent.done || !got.done) sender->progress(), receiver->progress();
    return sent.status == ECH_OK && got.status == ECH_OK && received == value;
  };
  EXPECT_TRUE(exchange(1));
  const FewDescriptors few(15);
  Completion refused, expected;
  sender->send(2, 1, {&value, 1}, refused);
  sender->receive(2, 1, {&received, 1}, expected);
  ASSERT_TRUE(refused.done && expected.done);
  EXPECT_EQ(refused.status, ECH_ERR_NO_MEMORY);
  EXPECT_EQ(expected.status, ECH_ERR_NO_MEMORY);
  EXPECT_EQ(refused.peer, 2);
  EXPECT_NE(sender->reason(2).find("16 file descriptors"), std::string::npos) << sender->reason(2);
  EXPECT_NE(sender->reason(2).find("ulimit -n"), std::string::npos) << sender->reason(2);
  EXPECT_EQ(sender->reason(1), "");
  EXPECT_TRUE(exchange(2));
}

// The message is there before the death is noticed; what comes after it never arrives.
TEST(UcxTransportTest, WhatALeavingPeerSentCanStillBeReceived) {
  UcxConfig config;
  config.tls = "tcp";
  config.devices = {"lo"};
  auto one = open_ucx(config);
  auto two = open_ucx(config);
  const std::vector<std::string> addresses = {one->address(), two->address()};
  auto sender = one->connect(0, addresses);
  auto receiver = two->connect(1, addresses);
  std::byte value{42};
  std::byte received{0};
  Completion sent;
  Completion unsent;
  sender->send(1, 1, {&value, 1}, sent);
  receiver->receive(0, 2, {&received, 1}, unsent);
  while (!sent.done) sender->progress(), receiver->progress();
  for (int i = 0; i < 1000; ++i) sender->progress(), receiver->progress();
  std::thread leaving([&] { sender.reset(); });
  while (!unsent.done) receiver->progress();
  leaving.join();
  EXPECT_EQ(unsent.status, ECH_ERR_PEER);
  Completion late;
  receiver->receive(0, 1, {&received, 1}, late);
  ASSERT_TRUE(late.done);
  EXPECT_EQ(late.status, ECH_OK);
  EXPECT_EQ(received, value);
}

TEST(UcxLeftovers, AreRemovedByRanksThatComeTogether) {
  constexpr int kRanks = 4;
  const TempFolder folder("leftovers");
  const std::string left = folder.file("ucx_shm_posix_left");
  for (int round = 0; round < 200; ++round) {
    std::ofstream(left) << "x";
    std::barrier together(kRanks);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kRanks; ++rank)
      ranks.emplace_back([&] {
        together.arrive_and_wait();
        remove_ucx_leftovers(folder.file(""));
      });
    for (std::thread& rank : ranks) rank.join();
    ASSERT_FALSE(std::filesystem::exists(left)) << "round " << round;
  }
}

// Who has a lease of a file is told by a signal when another opens it.
TEST(UcxLeftovers, MayBeLookedAtByOthersMeanwhile) {
  const TempFolder folder("leftovers");
  const std::string left = folder.file("ucx_shm_posix_left");
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) close(open(left.c_str(), O_RDONLY | O_NONBLOCK));
  });
  for (int round = 0; round < 2000; ++round) {
    std::ofstream(left) << "x";
    remove_ucx_leftovers(folder.file(""));
  }
  over = true;
  other.join();
  remove_ucx_leftovers(folder.file(""));
  EXPECT_FALSE(std::filesystem::exists(left));
}

}  // namespace
}  // namespace echelon::test
