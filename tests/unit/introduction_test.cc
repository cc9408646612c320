// SPDX-License-Identifier: Apache-2.0
#include "lib/introduction.h"

#include <gtest/gtest.h>

#include "lib/base/bytes.h"
#include "lib/base/error.h"

namespace echelon {
namespace {

template <typename Decode>
std::string error_of(const Decode& decode) {
  try {
    decode();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    return e.what();
  }
  return "";
}

const Introduction kSample{"boot:1",    "node7", CpuSet::range(2, 5), "leaf.node7", "switch.node",
                           "plan \"\"", 77};

TEST(Introduction, RoundTrip) {
  const Introduction back = introduction_from_wire(to_wire(kSample));
  EXPECT_EQ(back.host_id, kSample.host_id);
  EXPECT_EQ(back.host_name, kSample.host_name);
  EXPECT_EQ(back.cpus, kSample.cpus);
  EXPECT_EQ(back.slurm_address, kSample.slurm_address);
  EXPECT_EQ(back.slurm_pattern, kSample.slurm_pattern);
  EXPECT_EQ(back.settings, kSample.settings);
  EXPECT_EQ(back.pid, kSample.pid);
}

TEST(Introduction, EveryOtherLengthIsAnError) {
  const std::string good = to_wire(kSample);
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_NE(error_of([&] { introduction_from_wire(good.substr(0, n)); }), "") << n;
  EXPECT_NE(error_of([&] { introduction_from_wire(good + "x"); }), "");
}

TEST(Introduction, WhatIsShownToPeopleIsOneLine) {
  Introduction odd = kSample;
  odd.host_name = "node\n\x1b[2J";
  EXPECT_EQ(introduction_from_wire(to_wire(odd)).host_name, "node??[2J");
}

TEST(Introduction, CpusThatAreNoneAreAnError) {
  const std::string bytes =
      ByteWriter().text("").text("").text("5-2").text("").text("").text("").u32(1).take();
  EXPECT_NE(error_of([&] { introduction_from_wire(bytes); }).find("5-2"), std::string::npos);
}

TEST(MediaAddresses, RoundTripAndNothingElse) {
  const std::string good = to_wire(MediaAddresses{"net", std::string("sh\0m", 4)});
  const MediaAddresses back = media_addresses_from_wire(good);
  EXPECT_EQ(back.network, "net");
  EXPECT_EQ(back.shared.size(), 4u);
  EXPECT_NE(error_of([&] { media_addresses_from_wire(good.substr(1)); }), "");
  EXPECT_NE(error_of([&] { media_addresses_from_wire(good + "x"); }), "");
}

}  // namespace
}  // namespace echelon
