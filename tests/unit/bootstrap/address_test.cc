// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/address.h"

#include "lib/base/bytes.h"
#include "lib/bootstrap/text.h"
#include "lib/bootstrap/unique_id.h"
#include "tests/unit/bootstrap/support.h"

namespace echelon {
namespace {

using test::expect_error;
constexpr std::chrono::milliseconds kSecond{1000};

TEST(Address, TextOfBothFamilies) {
  Address four = *parse_address("10.1.2.3");
  four.set_port(4242);
  EXPECT_EQ(four.text(), "10.1.2.3:4242");
  Address six = *parse_address("fd00::1");
  six.set_port(1);
  EXPECT_EQ(six.text(), "[fd00::1]:1");
  EXPECT_FALSE(six.is_loopback());
  EXPECT_TRUE(parse_address("127.1.2.3")->is_loopback());
  EXPECT_TRUE(parse_address("::1")->is_loopback());
  EXPECT_FALSE(parse_address("eth0"));
  EXPECT_FALSE(parse_address("10.1.2"));
  EXPECT_FALSE(parse_address(""));
}

TEST(Address, NetworkIsWhomItBelongsTo) {
  const auto network = [](const char* literal) { return parse_address(literal)->network(); };
  EXPECT_EQ(network("10.0.0.1"), network("10.0.0.1"));
  EXPECT_NE(network("10.0.0.1"), network("10.0.0.2"));
  EXPECT_EQ(network("fd00:1:2:3::1"), network("fd00:1:2:3:ffff::2"));
  EXPECT_NE(network("fd00:1:2:3::1"), network("fd00:1:2:4::1"));
  EXPECT_EQ(network("::ffff:10.0.0.1"), network("10.0.0.1"));
  EXPECT_NE(network("::ffff:10.0.0.2"), network("10.0.0.1"));
}

TEST(Address, LoopbackByNameAndByAddress) {
  EXPECT_EQ(interface_address("lo").host(), "127.0.0.1");
  EXPECT_EQ(interface_address("127.0.0.1").host(), "127.0.0.1");
  EXPECT_EQ(interface_address("lo").port(), 0);
}

TEST(Address, DefaultIsAnAddressOfThisMachine) { EXPECT_TRUE(is_local(interface_address(""))); }

TEST(Address, UnknownInterfaceIsNamedWithThoseThatExist) {
  expect_error(ECH_ERR_INVALID, {"nosuch7", "lo"}, kSecond, [] { interface_address("nosuch7"); });
  expect_error(ECH_ERR_INVALID, {"192.0.2.77"}, kSecond, [] { interface_address("192.0.2.77"); });
}

TEST(Address, UnknownHostIsNamed) {
  expect_error(ECH_ERR_INVALID, {"no such host.invalid"}, test::kLong,
               [] { resolve("no such host.invalid", 1); });
}

TEST(Text, RankLists) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({1, 3, 4, 5, 7}), "ranks 1, 3-5 and 7");
  EXPECT_EQ(rank_list({1, 2}), "ranks 1 and 2");
  EXPECT_EQ(rank_list({1, 2, 3}), "ranks 1-3");
  std::vector<int> odd;
  for (int i = 1; i < 100; i += 2) odd.push_back(i);
  EXPECT_EQ(rank_list(odd), "ranks 1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and others (50 in all)");
}

TEST(Text, WhatOthersSayIsOneLine) {
  EXPECT_EQ(one_line("a\n\x1b[2Jb\x7f \xc3\xa4"), "a??[2Jb? \xc3\xa4");
}

TEST(UniqueId, RoundTripOfBothFamilies) {
  for (const char* host : {"10.1.2.3", "2001:db8:1111:2222:3333:4444:5555:6666"}) {
    UniqueId id{*parse_address(host), random_secret()};
    id.root.set_port(65535);
    const UniqueId back = decode(encode(id));
    EXPECT_EQ(back.root.text(), id.root.text());
    EXPECT_EQ(back.secret, id.secret);
  }
}

TEST(UniqueId, EveryChangedBitIsAnError) {
  UniqueId id{*parse_address("10.1.2.3"), random_secret()};
  id.root.set_port(4242);
  const ech_unique_id good = encode(id);
  for (int bit = 0; bit < 8 * ECH_UNIQUE_ID_BYTES; ++bit) {
    ech_unique_id bad = good;
    bad.bytes[bit / 8] = static_cast<char>(bad.bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_THROW(decode(bad), Error) << "bit " << bit;
  }
  expect_error(ECH_ERR_INVALID, {"unique id", "zero"}, kSecond, [] { decode(ech_unique_id{}); });
}

TEST(UniqueId, ListensOnlyWhereAskedAndIsTakenOnce) {
  const UniqueId id = listen_for_ranks("lo");
  EXPECT_EQ(id.root.host(), "127.0.0.1");
  EXPECT_NE(id.root.port(), 0);
  EXPECT_EQ(take_listener(id).address.text(), id.root.text());
  expect_error(ECH_ERR_INVALID, {"rank 0", id.root.text()}, kSecond, [&] { take_listener(id); });
}

TEST(Listener, PortInUseIsNamed) {
  const Listener first = listen_at("127.0.0.1", 0, "");
  expect_error(ECH_ERR_SYSTEM, {first.address.text(), "another program"}, kSecond,
               [&] { listen_at("127.0.0.1", first.address.port(), ""); });
}

TEST(Listener, BindsEverythingForAHostThatIsElsewhere) {
  EXPECT_EQ(listen_at("192.0.2.77", 0, "").address.host(), "0.0.0.0");
  EXPECT_EQ(listen_at("192.0.2.77", 0, "lo").address.host(), "127.0.0.1");
}

}  // namespace
}  // namespace echelon
