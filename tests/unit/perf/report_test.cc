// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace echelon::perf {
namespace {

Row sample() {
  Row row;
  row.bytes = 64 << 20;
  row.count = 16 << 20;
  row.type = "f32";
  row.op = "sum";
  row.time_us = 850000.12345;
  row.p99_us = 900000;
  row.mean_us = 860000;
  row.algbw_gbs = 0.0789512;
  row.busbw_gbs = 0.1381646;
  row.cpu_s = 0.25;
  row.wrong = 0;
  row.plan = "native/ring@8MiB";
  row.predicted_us = 842000;
  row.bound_us = 425000;
  return row;
}

std::vector<std::string> keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> all;
  for (const auto& [key, value] : object.items()) all.push_back(key);
  return all;
}

ech_stats held_up() {
  ech_stats stats = ECH_STATS_INIT;
  stats.periods = 3;
  stats.timed = 12;
  stats.slowest_rank = 5;
  stats.lateness = 1.5e-3;
  stats.slowest_from = 1;
  stats.slowest_to = 2;
  stats.measured = 23.4e6;
  stats.assumed = 119.6e6;
  stats.replans = 1;
  return stats;
}

TEST(Stats, SayWhoHeldUpTheOthers) {
  EXPECT_EQ(statistics_text(Format::kText, held_up()),
            "# stats of the last period: 12 operations timed; rank 5 came last, 1500 us after the "
            "first\n# slowest link: host 1 to host 2, 23.4 MB/s; plans assumed 119.6 MB/s\n"
            "# plans were made again for slow links: 1 x\n");
  ech_stats none = ECH_STATS_INIT;
  EXPECT_NE(statistics_text(Format::kText, none).find("too few"), std::string::npos);
  none.periods = 1;
  EXPECT_EQ(statistics_text(Format::kText, none),
            "# stats of the last period: no operation was timed\n");
  const auto j = nlohmann::json::parse(statistics_text(Format::kJson, held_up()))["stats"];
  EXPECT_EQ(j["slowest_rank"], 5);
  EXPECT_EQ(j["lateness_us"], 1500);
  EXPECT_EQ(j["measured_mbs"], 23.4);
  EXPECT_EQ(j["replans"], 1);
}

TEST(Json, HasExactlyThePromisedKeys) {
  const std::string text = line(Format::kJson, sample());
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto j = nlohmann::ordered_json::parse(text);
  const std::vector<std::string> expected = {
      "bytes",     "count", "type",  "op",   "time_us",      "p99_us",  "algbw_gbs",
      "busbw_gbs", "cpu_s", "wrong", "plan", "predicted_us", "bound_us"};
  EXPECT_EQ(keys(j), expected);
  EXPECT_EQ(j["bytes"], 64 << 20);
  EXPECT_EQ(j["time_us"], 850000.123);
  EXPECT_EQ(j["wrong"], 0);
  EXPECT_EQ(j["plan"], "native/ring@8MiB");
  EXPECT_EQ(header(Format::kJson), "");
}

TEST(Json, NamesTheCollectiveWhenThereAreSeveral) {
  const auto j = nlohmann::json::parse(line(Format::kJson, sample(), {.several = true}));
  EXPECT_EQ(j["collective"], "allreduce");
  EXPECT_EQ(j.size(), 14u);
}

TEST(Json, UnknownIsNull) {
  Row row = sample();
  row.wrong.reset();
  row.bound_us.reset();
  const auto j = nlohmann::json::parse(line(Format::kJson, row));
  EXPECT_TRUE(j["wrong"].is_null());
  EXPECT_TRUE(j["bound_us"].is_null());
}

TEST(Csv, HasOneFieldPerColumn) {
  Row row = sample();
  row.wrong.reset();
  const std::string head = header(Format::kCsv);
  const std::string text = line(Format::kCsv, row);
  EXPECT_EQ(head.substr(0, 16), "bytes,count,type");
  EXPECT_EQ(std::ranges::count(head, ','), 12);
  EXPECT_EQ(std::ranges::count(text, ','), 12);
  EXPECT_NE(text.find(",0.25,,native/ring@8MiB,842000.0,425000.0\n"), std::string::npos) << text;
}

TEST(Text, ColumnsAlignWithTheirHeader) {
  const std::string head = header(Format::kText);
  const std::string text = line(Format::kText, sample());
  EXPECT_EQ(head.find("plan"), text.find("native"));
  std::istringstream words(text);
  std::vector<std::string> fields;
  for (std::string word; words >> word;) fields.push_back(word);
  const std::vector<std::string> expected = {
      "67108864", "16777216", "f32", "sum",    "850000", "900000", "0.079",
      "0.138",    "250000",   "0",   "842000", "425000", "2.00",   "native/ring@8MiB"};
  EXPECT_LE(text.size(), 131u);
  EXPECT_EQ(fields, expected);
}

TEST(Text, UncheckedAndUnknownAreSaid) {
  Row row = sample();
  row.wrong.reset();
  row.predicted_us.reset();
  row.bound_us = 0;
  const std::string text = line(Format::kText, row);
  EXPECT_NE(text.find("N/A"), std::string::npos);
  EXPECT_NE(text.find("      -  native/ring@8MiB\n"), std::string::npos) << text;
}

TEST(Nccl, HasTwoColumnsWhereItIsComparedWith) {
  constexpr Columns kWith{.several = false, .nccl = true};
  Row row = sample();
  row.nccl_us = 425000.061725;
  const auto j = nlohmann::json::parse(line(Format::kJson, row, kWith));
  EXPECT_EQ(j["nccl_us"], 425000.062);
  EXPECT_EQ(j["time_by_nccl"], 2);
  EXPECT_EQ(j.size(), 15u);
  const std::string head = header(Format::kText, kWith);
  const std::string text = line(Format::kText, row, kWith);
  EXPECT_EQ(head.find("plan"), text.find("native"));
  EXPECT_EQ(head.find("NCCL") + 4, text.find(" 425000   2.00  native") + 7) << head << text;
  EXPECT_EQ(std::ranges::count(header(Format::kCsv, kWith), ','), 14);
  row.nccl_us.reset();
  EXPECT_NE(line(Format::kText, row, kWith).find("-      -  native"), std::string::npos);
}

TEST(Osu, IsTwoColumnsOfSizeAndMean) {
  EXPECT_EQ(header(Format::kOsu), "# Size          Avg Latency(us)\n");
  EXPECT_EQ(line(Format::kOsu, sample()), "67108864              860000.00\n");
}

TEST(Comparison, ShowsTheGainPerSize) {
  Row slow = sample();
  slow.time_us *= 2;
  const std::string text = comparison({sample()}, {slow}, "flat ring");
  EXPECT_NE(text.find("64 MiB"), std::string::npos);
  EXPECT_NE(text.find("flat ring(us)"), std::string::npos);
  EXPECT_NE(text.find("2.00 x"), std::string::npos);
}

}  // namespace
}  // namespace echelon::perf
