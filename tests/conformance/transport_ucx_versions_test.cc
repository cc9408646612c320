// SPDX-License-Identifier: Apache-2.0
// The names that UCX's settings have depend on its version. This program takes the place of two of
// UCX's functions, to say which version is there and to see which names are used.
#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

#include <map>
#include <string>

#include "transports/ucx/ucx.h"

namespace {

unsigned minor = 0;
std::map<std::string, std::string> settings;

}  // namespace

extern "C" void ucp_get_version(unsigned* major_number, unsigned* minor_number,
                                unsigned* release_number) {
  *major_number = 1;
  *minor_number = minor;
  *release_number = 0;
}

extern "C" ucs_status_t ucp_config_modify(ucp_config_t*, const char* name, const char* value) {
  settings[name] = value;
  return UCS_OK;
}

namespace echelon {
namespace {

std::map<std::string, std::string> settings_of(unsigned version, UcxConfig config = {}) {
  minor = version;
  settings.clear();
  config.tls = "tcp";
  open_ucx(config);
  return settings;
}

TEST(UcxSettings, OfTcpGoWithoutItsNameUpTo116) {
  const auto names = settings_of(16);
  EXPECT_EQ(names.count("TCP_CONN_NB"), 0u);
  ASSERT_EQ(names.count("CONN_NB"), 1u);
  EXPECT_EQ(names.at("CONN_NB"), "y");
}

TEST(UcxSettings, OfTcpGoWithItsNameFrom117On) {
  const auto names = settings_of(17);
  EXPECT_EQ(names.count("CONN_NB"), 0u);
  EXPECT_EQ(names.count("TX_SEG_SIZE"), 0u);
  ASSERT_EQ(names.count("TCP_CONN_NB"), 1u);
  EXPECT_EQ(names.at("TCP_CONN_NB"), "y");
}

// On all hosts alike; what is sent depends on the host, and is less.
TEST(UcxSettings, PiecesFitWhatIsReceived) {
  auto names = settings_of(16);
  EXPECT_EQ(names.at("RX_SEG_SIZE"), "132kb");
  const std::string sent = names.contains("TX_SEG_SIZE") ? names.at("TX_SEG_SIZE") : "33kb";
  EXPECT_TRUE(sent == "130kb" || sent == "33kb") << sent;
  names = settings_of(17);
  EXPECT_EQ(names.at("TCP_RX_SEG_SIZE"), "132kb");
}

TEST(UcxSettings, PiecesAreSmallWithBbr) {
  for (const char* name : {"bbr", "bbr2", "bbr3"}) EXPECT_TRUE(stalls_large_pieces(name)) << name;
  for (const char* name : {"cubic", "reno", "dctcp", ""})
    EXPECT_FALSE(stalls_large_pieces(name)) << name;
}

TEST(UcxSettings, WhatTheUserReceivesIsLeftAlone) {
  for (const std::string_view variable : {"UCX_TCP_RX_SEG_SIZE", "UCX_RX_SEG_SIZE"}) {
    UcxConfig config;
    config.user_set = [=](std::string_view name) { return name == variable; };
    const auto names = settings_of(16, config);
    EXPECT_FALSE(names.contains("RX_SEG_SIZE"));
    EXPECT_TRUE(!names.contains("TX_SEG_SIZE") || names.at("TX_SEG_SIZE") == "33kb");
  }
}

}  // namespace
}  // namespace echelon
