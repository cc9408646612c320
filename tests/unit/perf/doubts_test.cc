// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/doubts.h"

#include <gtest/gtest.h>

namespace echelon::perf {
namespace {

std::string fabric(const std::string& bandwidth, const std::string& latency,
                   const std::string& source) {
  return R"({"tier": {"host": {"bandwidth": ")" + bandwidth + R"(", "bandwidth_source": ")" +
         source + R"(", "latency": ")" + latency + R"(", "latency_source": ")" + source + R"("}}})";
}

TEST(Doubts, AreAboutLinksThatWereMeasuredFarTooSlow) {
  EXPECT_EQ(doubts_about_links(fabric("8.5 GB/s", "2.5 us", "measured")), "");
  EXPECT_NE(doubts_about_links(fabric("12.5 MB/s", "2.5 us", "measured")).find("12.5 MB/s"),
            std::string::npos);
  EXPECT_NE(doubts_about_links(fabric("8.5 GB/s", "3 ms", "measured")).find("3000 us"),
            std::string::npos);
  EXPECT_EQ(doubts_about_links(fabric("12.5 MB/s", "3 ms", "file")), "") << "as it was asked for";
  for (const char* text : {"", "[]", "{}", R"({"tier": {}})", R"({"tier": {"host": {}}})"})
    EXPECT_EQ(doubts_about_links(text), "") << text;
}

TEST(Doubts, AreAboutRowsFarBelowTheirBound) {
  Row row;
  row.time_us = 10;
  EXPECT_EQ(doubts_about_bounds({row}), "") << "there is no bound";
  row.bound_us = 12;
  EXPECT_EQ(doubts_about_bounds({row}), "");
  row.bound_us = 30;
  EXPECT_EQ(doubts_about_bounds({row, {}}).substr(0, 22), "# note: 1 of 2 rows to");
}

}  // namespace
}  // namespace echelon::perf
