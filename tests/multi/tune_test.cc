// SPDX-License-Identifier: Apache-2.0
// `echelon tune` on live ranks, and what others make of its file.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/json_lines.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/run/program.h"

namespace echelon::test {
namespace {

using Words = std::vector<std::string>;
using namespace std::chrono_literals;

Result on_two(const Words& command, const Words& settings = {}) {
  Words words = {program(), "run", "--no-tag", "-n", "2"};
  for (const std::string& setting : settings) words.insert(words.end(), {"--env", setting});
  words.insert(words.end(), {"--", program()});
  words.insert(words.end(), command.begin(), command.end());
  return run_program(words, "", 100s);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// The plans of allreduce, which come first, replaced by one that nobody would choose.
std::string with_plan(std::string text, const std::string& plan) {
  const std::string key = "\nplan = \"";
  for (auto at = text.find(key); at < text.find("\"broadcast\""); at = text.find(key, at + 1)) {
    const auto begin = at + key.size();
    text.replace(begin, text.find('"', begin) - begin, plan);
  }
  return text;
}

class Tune : public testing::Test {
 protected:
  const TempFolder folder_{"tune"};
  const std::string file_ = folder_.file("tuning.toml");
};

TEST_F(Tune, WritesAFileThatPerfUses) {
  const Result r = on_two({"tune", "-C", "allreduce,broadcast", "-b", "4", "-e", "256K", "-f",
                           "256", "--time", "2", "-o", file_});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("the model's choice is within 10 % of the best plan in "), r.out.npos);
  const std::string text = text_of(file_);
  EXPECT_NE(text.find("\nranks = \"2\"\n"), text.npos) << text;
  EXPECT_NE(text.find("collective = \"allreduce\"\nabove = 4\nup_to = 1024\n"), text.npos) << text;
  EXPECT_NE(text.find("collective = \"broadcast\"\nabove = 1024\nup_to = 262144\n"), text.npos)
      << text;
  EXPECT_EQ(text.find("\nread = "), text.npos) << "not all sizes were tried: " << text;
  EXPECT_FALSE(std::filesystem::exists(file_ + ".part"));
  // What it says is used, whatever it says.
  put(file_, with_plan(text, "direct"));
  const Words perf = {"perf", "-b", "1K", "-e", "4M", "-f", "64", "-n", "5", "--format", "json"};
  const auto rows = json_lines(on_two(perf, {"ECHELON_TUNING=" + file_}).out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["plan"], "direct");
  EXPECT_EQ(rows[1]["plan"], "direct");
  EXPECT_NE(rows[2]["plan"], "direct") << "nothing was measured there";
  for (const auto& row : rows) EXPECT_EQ(row["wrong"], 0);
  const Result plans =
      on_two({"perf", "--plans", "-b", "1K", "-e", "1K"}, {"ECHELON_TUNING=" + file_});
  EXPECT_NE(plans.out.find("because measured by echelon tune: "), r.out.npos) << plans.out;
  EXPECT_EQ(plans.err.find("tuning"), r.err.npos) << plans.err;
}

TEST_F(Tune, MeasuresSharedMemory) {
  const Words tune = {"tune", "-C",      "allreduce", "-b",  "4",  "-e", "4M",
                      "-f",   "1048576", "--time",    "100", "-o", file_};
  const Result r = on_two(tune);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("\n# shared memory: "), r.out.npos) << r.out;
  EXPECT_EQ(r.out.find("time was up before"), r.out.npos) << r.out;
  // Whatever was found, every size takes the way that the file says.
  const std::string text = text_of(file_), table = "\n[shared_memory]\n";
  EXPECT_NE(text.find("\n[shared_memory.stores]\nadditions = \""), text.npos) << text;
  const std::string sizes =
      "one_shot = \"0 B\"\nread = \"0 B\"\n[shared_memory.stores]\nadditions = \"++++++++\"\n"
      "[shared_memory.results]\nadditions = \"++++++++\"\n\n";
  put(file_, text.substr(0, std::min(text.find(table), text.find("\n[[plan]]"))) + table + sizes +
                 text.substr(text.find("\n[[plan]]")));
  const Words perf = {"perf", "-b", "8", "-e", "4M", "-f", "512", "-n", "5", "--format", "json"};
  const Result used = on_two(perf, {"ECHELON_TUNING=" + file_});
  EXPECT_EQ(used.code, 0) << used.err;
  EXPECT_EQ(used.err, "");
  for (const auto& row : json_lines(used.out)) EXPECT_EQ(row["wrong"], 0);
}

TEST_F(Tune, WhereFewRanksAreTheOthersFileIsLeftAside) {
  ASSERT_EQ(on_two({"tune", "-C", "reduce", "-e", "4", "--time", "1", "-o", file_}).code, 0);
  const Result r = run_program({program(), "run", "--no-tag", "-n", "3", "--env",
                                "ECHELON_TUNING=" + file_, "--", program(), "perf", "-e", "8"},
                               "", 100s);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("tuning.toml: ranks is \"3\" here, but \"2\" where it was measured"),
            r.err.npos)
      << r.err;
}

TEST_F(Tune, IsNotMovedByWhatIsSetAlready) {
  put(file_, "nonsense");
  const Result r = on_two({"tune", "-C", "allreduce", "-e", "4", "--time", "1", "--format", "json"},
                          {"ECHELON_TUNING=" + file_, "ECHELON_ALGORITHM=ring"});
  ASSERT_EQ(r.code, 0) << r.err;
  const auto rows = json_lines(r.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["model"], "native");
  EXPECT_GT(rows[0]["tried"], 1) << "messages were open";
}

TEST_F(Tune, SaysWhatIsWrongBeforeItMeasures) {
  const std::string link = folder_.file("link");
  std::filesystem::create_symlink("elsewhere", link);
  const struct {
    Words words;
    std::string said;
  } kCases[] = {{{"-C", "barrier"}, "tune that"},
                {{"-b", "8", "-e", "4"}, "expected -b <= -e"},
                {{"--time", "0"}, "\"0\" is no number of seconds"},
                {{"-o", folder_.file("no/file")}, "-o "},
                {{"-o", folder_.path().string()}, "not a regular file"},
                {{"-o", "/dev/null"}, "not a regular file"},
                {{"-o", link}, "not a regular file"}};
  for (const auto& c : kCases) {
    Words words = {"tune"};
    words.insert(words.end(), c.words.begin(), c.words.end());
    const Result r = on_two(words);
    EXPECT_NE(r.code, 0) << c.said;
    EXPECT_NE(r.err.find(c.said), r.err.npos) << r.err;
  }
  const Result alone = run_program({program(), "tune", "-e", "4"}, "", 100s);
  EXPECT_EQ(alone.code, 2) << alone.err;
  EXPECT_NE(alone.err.find("one rank has nothing to exchange"), alone.err.npos) << alone.err;
}

}  // namespace
}  // namespace echelon::test
