// SPDX-License-Identifier: Apache-2.0
// What only UCX has: settings, and what it says when they do not fit. Apart from the suite,
// which forks and so wants a process that has not used UCX.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "lib/base/error.h"
#include "transports/ucx/ucx.h"
#include "transports/ucx/ucx_address.h"

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

}  // namespace
}  // namespace echelon::test
