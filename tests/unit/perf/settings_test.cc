// SPDX-License-Identifier: Apache-2.0
// Words, sizes, and the command line's errors.
#include "tools/perf/settings.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "tools/perf.h"
#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

TEST(Words, NamesParseBack) {
  for (ech_dtype t : parse_dtypes("all"))
    EXPECT_EQ(parse_dtypes(name(t)), std::vector<ech_dtype>{t});
  for (ech_op o : parse_ops("all")) EXPECT_EQ(parse_ops(name(o)), std::vector<ech_op>{o});
  EXPECT_EQ(parse_collectives("all").size(), 6u);
  EXPECT_EQ(parse_dtypes("float,half"), (std::vector<ech_dtype>{ECH_FLOAT32, ECH_FLOAT16}));
}

std::string refusal(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(Words, OneIsNotAll) {
  EXPECT_EQ(parse_dtype("double"), ECH_FLOAT64);
  EXPECT_EQ(parse_collective("broadcast"), ECH_BROADCAST);
  EXPECT_EQ(refusal([] { parse_collective("all"); }), "\"all\" is none of " + collective_words());
  EXPECT_EQ(refusal([] { parse_dtype("f32,f64"); }), "\"f32,f64\" is none of " + dtype_words());
}

TEST(Words, UnknownOnesListWhatThereIs) {
  for (const char* text : {"", "f32,", ",f32", "f128", "F32", "f32 f64"}) {
    EXPECT_TRUE(refusal([&] { parse_dtypes(text); }).ends_with(dtype_words() + ", all")) << text;
  }
  EXPECT_THROW(parse_ops("plus"), std::invalid_argument);
  EXPECT_THROW(parse_collectives("scatter"), std::invalid_argument);
}

TEST(Bytes, AcceptsUnitsAndNothingElse) {
  EXPECT_EQ(parse_bytes("8"), 8u);
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("1.5M"), 3u << 19);
  EXPECT_EQ(parse_bytes("2GiB"), std::size_t{2} << 30);
  EXPECT_EQ(parse_bytes("4g"), std::size_t{4} << 30);
  for (const char* text : {"", "-8", "8X", "8 K", "K", "1.3", "nan", "inf", "1e5", "8KK", "8BB",
                           "1024T", "99999999999999999999"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(Sizes, ByFactorAndByStep) {
  Settings s;
  s.max_bytes = 100;
  EXPECT_EQ(sizes(s), (std::vector<std::size_t>{8, 16, 32, 64}));
  s.end_at_max = true;
  EXPECT_EQ(sizes(s).back(), 100u);
  s.step_bytes = 40;
  s.end_at_max = false;
  EXPECT_EQ(sizes(s), (std::vector<std::size_t>{8, 48, 88}));
  s.step_bytes = 0;
  s.min_bytes = 0;
  s.max_bytes = 4;
  EXPECT_EQ(sizes(s), (std::vector<std::size_t>{0, 1, 2, 4}));
}

TEST(Sizes, ContradictionsAreErrors) {
  Settings s;
  s.min_bytes = 100;
  s.max_bytes = 10;
  EXPECT_THROW(sizes(s), std::invalid_argument);
  s = {};
  s.factor = 1;
  EXPECT_THROW(sizes(s), std::invalid_argument);
  s = {};
  s.step_bytes = 1;
  EXPECT_THROW(sizes(s), std::invalid_argument);
}

TEST(Counts, AreTheCollectivesOwn) {
  Case c{.dtype = ECH_FLOAT64};
  EXPECT_EQ(count_for(100, c, 3), 12u);
  EXPECT_EQ(count_for(1, c, 3), 1u);
  EXPECT_EQ(count_for(0, c, 3), 0u);
  c.collective = ECH_ALLGATHER;
  c.count = count_for(100, c, 3);
  EXPECT_EQ(c.count, 4u);
  EXPECT_EQ(bytes_of(c, 3), 96u);
  EXPECT_EQ(send_elements(c, 3), 4u);
  EXPECT_EQ(recv_elements(c, 3), 12u);
  c.collective = ECH_REDUCE_SCATTER;
  EXPECT_EQ(send_elements(c, 3), 12u);
  EXPECT_EQ(recv_elements(c, 3), 4u);
}

// Usage errors are found before any communicator is made, in one line with exit status 2.
int exit_status(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "perf");
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  return tools::perf_program(static_cast<int>(argv.size()), argv.data(), {}, "test");
}

TEST(CommandLine, UsageErrors) {
  const std::vector<std::vector<std::string>> wrong = {{"-d", "f128"},
                                                       {"-o", "plus"},
                                                       {"-C", "scatter"},
                                                       {"-b", "12Q"},
                                                       {"-f", "1"},
                                                       {"-n", "0"},
                                                       {"-w", "-1"},
                                                       {"--format", "xml"},
                                                       {"-O", "sideways"},
                                                       {"-b", "8", "-e", "4"},
                                                       {"-r", "-1"},
                                                       {"--time-limit", "-3"},
                                                       {"--sample-time", "-1"},
                                                       {"-z", "maybe"},
                                                       {"--check", "--demo"},
                                                       {"surplus"},
                                                       {"-f", "2", "-i", "8"}};
  for (const auto& arguments : wrong) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(exit_status(arguments), 2) << arguments[0];
    EXPECT_NE(testing::internal::GetCapturedStderr(), "");
  }
}

}  // namespace
}  // namespace echelon::perf
