// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/frame.h"

#include "tests/unit/bootstrap/support.h"

namespace echelon {
namespace {

const Key kKey = derived_secret("frames");

std::string frames(const std::vector<std::string>& payloads) {
  FrameEncoder encoder(kKey);
  std::string bytes;
  for (const std::string& payload : payloads)
    encoder.append(FrameType::kGather, payload, true, bytes);
  return bytes;
}

TEST(Frame, AnyCutOfTheStreamGivesTheSameMessages) {
  const std::string bytes = frames({"", "a", std::string(1000, 'b')});
  for (std::size_t step : {1, 2, 3, 7, 100, 2000}) {
    FrameDecoder decoder(kKey);
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      decoder.feed(std::string_view(bytes).substr(at, step));
      while (const auto message = decoder.next()) sizes.push_back(message->payload.size());
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{0, 1, 1000})) << step;
  }
}

TEST(Frame, LongMessagesAreJoinedAndShortOnesMayOvertake) {
  FrameEncoder encoder(kKey);
  std::string bytes;
  encoder.append(FrameType::kGather, "begin ", false, bytes);
  encoder.append(FrameType::kFailure, "stop", true, bytes);
  encoder.append(FrameType::kGather, "end", true, bytes);
  FrameDecoder decoder(kKey);
  decoder.feed(bytes);
  const auto first = decoder.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->type, FrameType::kFailure);
  EXPECT_EQ(first->payload, "stop");
  const auto second = decoder.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->payload, "begin end");
  EXPECT_FALSE(decoder.next());
}

TEST(Frame, EveryChangedBitIsDetectedOrWaitsForMore) {
  const std::string bytes = frames({"hello"});
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string bad = bytes;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    FrameDecoder decoder(kKey);
    decoder.feed(bad);
    try {
      EXPECT_FALSE(decoder.next()) << bit;
      EXPECT_LT(bit, 32u) << "only a changed length may still wait";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_AUTH);
    }
  }
}

TEST(Frame, RepeatedOmittedAndForeignFramesAreDetected) {
  const std::string one = frames({"hello"});
  const std::string two = frames({"hello", "hello"});
  for (const std::string& bad :
       {one + one, two.substr(one.size()), frames({"x"}).replace(6, 1, "y")}) {
    FrameDecoder decoder(kKey);
    decoder.feed(bad);
    EXPECT_THROW(while (decoder.next()){}, Error);
  }
  FrameDecoder other(derived_secret("other"));
  other.feed(one);
  EXPECT_THROW(other.next(), Error);
}

TEST(Frame, WhatOnlyALongMessageNeededIsGivenBack) {
  std::string bytes(100000, 'x');
  empty(bytes);
  EXPECT_TRUE(bytes.empty());
  EXPECT_LT(bytes.capacity(), 100u);
  bytes.assign(1000, 'y');
  const std::size_t kept = bytes.capacity();
  empty(bytes);
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(bytes.capacity(), kept);
}

TEST(Frame, LengthsAreBounded) {
  FrameDecoder decoder(kKey);
  decoder.feed(std::string("\xff\xff\xff\xff\x01\x01", 6));
  test::expect_error(ECH_ERR_AUTH, {"longer"}, test::milliseconds(100), [&] { decoder.next(); });
}

}  // namespace
}  // namespace echelon
