// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/auth.h"

#include "lib/bootstrap/handshake.h"
#include "tests/unit/bootstrap/support.h"

namespace echelon {
namespace {

constexpr std::chrono::milliseconds kSecond{1000};

TEST(Secret, HexadecimalRoundTrip) {
  const Secret secret = random_secret();
  EXPECT_EQ(hex(secret).size(), 64u);
  EXPECT_EQ(parse_secret(hex(secret), "x"), secret);
  EXPECT_NE(random_secret(), secret);
}

TEST(Secret, BadTextIsNamedButNotRepeated) {
  for (const std::string& bad :
       {std::string(), std::string("abc"), std::string(64, 'g'), std::string(66, 'a')}) {
    try {
      parse_secret(bad, "ECHELON_SECRET");
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_INVALID);
      EXPECT_NE(std::string(e.what()).find("ECHELON_SECRET"), std::string::npos);
      EXPECT_TRUE(bad.empty() || std::string(e.what()).find(bad) == std::string::npos);
    }
  }
}

TEST(Secret, DerivedDependsOnEveryByte) {
  EXPECT_EQ(derived_secret("job 1"), derived_secret("job 1"));
  EXPECT_NE(derived_secret("job 1"), derived_secret("job 2"));
}

const Secret kSecret = derived_secret("test");
const Hello kHello{{}, 8, 3, 77, "node3"};

TEST(Handshake, BothSidesAgree) {
  const std::string challenge = encode_challenge();
  ASSERT_EQ(challenge.size(), kChallengeBytes);
  const std::string hello = encode_hello(kSecret, challenge, kHello);
  ASSERT_EQ(hello.size(), kHelloBytes);
  const Hello seen = decode_hello(kSecret, challenge, hello);
  EXPECT_EQ(seen.rank, 3u);
  EXPECT_EQ(seen.size, 8u);
  EXPECT_EQ(seen.pid, 77u);
  EXPECT_EQ(seen.host, "node3");
  EXPECT_EQ(seen.version, Version{});
  const std::string answer = encode_verdict(kSecret, challenge, hello, {ECH_ERR_INVALID, "no"});
  ASSERT_EQ(answer.size(), kVerdictBytes);
  const Verdict verdict = decode_verdict(kSecret, challenge, hello, answer);
  EXPECT_EQ(verdict.status, ECH_ERR_INVALID);
  EXPECT_EQ(verdict.text, "no");
  const SessionKeys keys = session_keys(kSecret, challenge, hello);
  EXPECT_NE(keys.from_root, keys.to_root);
}

TEST(Handshake, EveryChangedByteOfAHelloIsRefused) {
  const std::string challenge = encode_challenge();
  const std::string hello = encode_hello(kSecret, challenge, kHello);
  for (std::size_t i = 0; i < hello.size(); ++i) {
    // The magic is compared apart from the proof, but covered by it as well.
    std::string bad = hello;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_THROW(decode_hello(kSecret, challenge, bad), Error) << i;
    EXPECT_THROW(decode_hello(kSecret, challenge, hello.substr(0, i)), Error) << i;
  }
}

TEST(Handshake, EveryChangedByteOfAVerdictIsRefused) {
  const std::string challenge = encode_challenge();
  const std::string hello = encode_hello(kSecret, challenge, kHello);
  const std::string answer = encode_verdict(kSecret, challenge, hello, {});
  for (std::size_t i = 0; i < answer.size(); ++i) {
    std::string bad = answer;
    bad[i] = static_cast<char>(bad[i] ^ 0x80);
    EXPECT_THROW(decode_verdict(kSecret, challenge, hello, bad), Error) << i;
  }
}

TEST(Handshake, RecordedMessagesProveNothing) {
  const std::string hello = encode_hello(kSecret, encode_challenge(), kHello);
  const std::string fresh = encode_challenge();
  EXPECT_THROW(decode_hello(kSecret, fresh, hello), Error);
  const std::string mine = encode_hello(kSecret, fresh, kHello);
  const std::string again = encode_hello(kSecret, fresh, kHello);
  const std::string answer = encode_verdict(kSecret, fresh, mine, {});
  EXPECT_THROW(decode_verdict(kSecret, fresh, again, answer), Error);
}

TEST(Handshake, OtherSecretsAreRefused) {
  const std::string challenge = encode_challenge();
  const std::string hello = encode_hello(derived_secret("other"), challenge, kHello);
  test::expect_error(ECH_ERR_AUTH, {"secret"}, kSecond,
                     [&] { decode_hello(kSecret, challenge, hello); });
  test::expect_error(ECH_ERR_AUTH, {"different secrets"}, kSecond,
                     [&] { decode_verdict(kSecret, challenge, hello, encode_refusal()); });
}

TEST(Handshake, HostNamesAreCutAndMadePrintable) {
  const std::string challenge = encode_challenge();
  Hello odd = kHello;
  odd.host = "a\x1b[2J" + std::string(200, 'x');
  const Hello seen = decode_hello(kSecret, challenge, encode_hello(kSecret, challenge, odd));
  EXPECT_EQ(seen.host, "a?[2J" + std::string(kHostBytes - 5, 'x'));
}

TEST(Handshake, VersionsSaySo) {
  EXPECT_EQ((Version{3, 1002003}.text()), "echelon 1.2.3 (protocol 3)");
}

}  // namespace
}  // namespace echelon
