// SPDX-License-Identifier: Apache-2.0
// Plans that are asked for while a communicator is used, and those of a tuning file, over the C
// ABI.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/multi/abi_trial.h"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

nlohmann::json explain(ech_comm* comm, std::size_t bytes) {
  ech_question question = ECH_QUESTION_INIT;
  question.count = bytes;
  char* text = nullptr;
  EXPECT_TRUE(ok(ech_comm_explain(comm, &question, ECH_JSON, &text)));
  nlohmann::json json = nlohmann::json::parse(text);
  ech_text_free(text);
  return json;
}

std::string plan(ech_comm* comm) { return explain(comm, 100'000)["plan"]; }

void expect_right(ech_comm* comm) {
  Trial trial(comm, {ECH_ALLREDUCE, 40'009, ECH_FLOAT32, ECH_SUM, 0});
  ASSERT_TRUE(ok(trial.run()));
  trial.check();
}

TEST(SetAlgorithm, ChangesThePlanForWhatComesAfter) {
  const World world;
  run_processes(3, [&](int rank) {
    ech_comm_options options = options_with(kPatience);
    options.algorithm = "ring";  // so that there are messages on one host
    Comm comm = make_comm(world, {rank, 3}, options);
    Trial pending(comm.get(), {ECH_ALLREDUCE, 1 << 20, ECH_FLOAT32, ECH_SUM, 0});
    ech_request* request = nullptr;
    ASSERT_TRUE(ok(pending.start(&request)));
    for (const char* text : {"direct", "native@64KiB", "direct", "ring@128KiB"}) {
      ASSERT_TRUE(ok(ech_comm_set_algorithm(comm.get(), text)));
      EXPECT_EQ(plan(comm.get()), text);
      expect_right(comm.get());
    }
    ASSERT_TRUE(ok(ech_comm_set_algorithm(comm.get(), nullptr)));
    EXPECT_NE(explain(comm.get(), 100'000)["reason"], "asked for");
    EXPECT_EQ(explain(comm.get(), 200'000)["segments_under_way"], 1) << "as of 256 KiB";
    expect_right(comm.get());
    ASSERT_TRUE(ok(ech_wait(&request)));
    pending.check();
    close(std::move(comm));
  });
}

TEST(SetAlgorithm, WhatIsWrongChangesNothing) {
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    for (const char* text : {"rung", "native/ring", "ring"}) {  // without messages no ring
      EXPECT_TRUE(failed_with(ech_comm_set_algorithm(comm.get(), text), ECH_ERR_INVALID)) << text;
      EXPECT_EQ(plan(comm.get()), "native");
    }
    const std::string endless(1 << 26, 'n');
    EXPECT_TRUE(failed_with(ech_comm_set_algorithm(comm.get(), endless.c_str()), ECH_ERR_INVALID));
    EXPECT_LT(std::string(ech_last_error()).size(), 1000u);
    const char* const different = rank == 0 ? "native" : "native@1MiB";
    EXPECT_TRUE(failed_with(ech_comm_set_algorithm(comm.get(), different), ECH_ERR_INVALID));
    EXPECT_NE(std::string(ech_last_error()).find("rank 1"), std::string::npos) << ech_last_error();
    expect_right(comm.get());
    close(std::move(comm));
  });
}

// ---- a tuning file -----------------------------------------------------------------------------

// In a folder of the test's own.
class TuningFile {
 public:
  explicit TuningFile(const std::string& text) {
    std::string name = testing::TempDir() + "tuning-XXXXXX";
    const int fd = mkstemp(name.data());
    EXPECT_GE(fd, 0);
    ::close(fd);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~TuningFile() { unlink(path_.c_str()); }
  TuningFile(const TuningFile&) = delete;
  TuningFile& operator=(const TuningFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Whatever this machine is, a warning tells it word by word.
std::string log_of_all;

void note(ech_log_level, const char* message, void*) {
  log_of_all += message;
  log_of_all += '\n';
}

using Machine = std::vector<std::pair<std::string, std::string>>;

std::string toml(const Machine& machine, const std::string& plans) {
  std::string text = "version = 1\n[machine]\n";
  for (const auto& [name, value] : machine) text += name + " = \"" + value + "\"\n";
  return text + plans;
}

std::string row(const std::string& what, const std::string& recipe) {
  return "[[plan]]\ncollective = \"" + what + "\"\nabove = 0\nup_to = 1048576\nplan = \"" + recipe +
         "\"\ntime = \"212 us\"\nmodel = \"native\"\nmodel_time = \"260 us\"\nsamples = 3\n";
}

Comm make_tuned(const World& world, const Place& place, const std::string& path) {
  if (path.empty())
    unsetenv("ECHELON_TUNING");
  else
    setenv("ECHELON_TUNING", path.c_str(), 1);
  ech_comm_options options = options_with(kPatience);
  options.log = note;
  return make_comm(world, place, options);
}

// What the library says of this machine when one fact after the other is wrong.
Machine machine_of_this(const World& world, int rank, int& slot) {
  Machine machine = {{"hosts", ""}, {"ranks", ""}, {"racks", ""}, {"nics", ""},
                     {"tiers", ""}, {"cores", ""}, {"cpu", ""}};
  for (auto& [name, value] : machine) {
    log_of_all.clear();
    const TuningFile file(toml(machine, ""));
    // Rank 0 alone says what it is, so that both go on alike.
    Comm comm = make_tuned(world, {rank, 2, slot++}, rank == 0 ? file.path() : "");
    std::string said(4096, '\0');
    std::smatch found;
    const std::regex wrong(name + " is \"(.*)\" here, but \"\" where it was measured");
    if (rank == 0 && std::regex_search(log_of_all, found, wrong))
      said.replace(0, found[1].length(), found[1]);
    EXPECT_TRUE(rank != 0 || !found.empty()) << name << ": " << log_of_all;
    EXPECT_TRUE(ok(ech_broadcast(said.data(), said.data(), said.size(), ECH_UINT8, 0, comm.get())));
    value = said.c_str();
    close(std::move(comm));
  }
  return machine;
}

TEST(TuningFile, OfRankZeroIsUsedByAllOnTheSameMachinesOnly) {
  const World world(13);
  run_processes(2, [&](int rank) {
    int slot = 0;
    const Machine machine = machine_of_this(world, rank, slot);
    EXPECT_EQ(machine[1].second, "2");
    const TuningFile file(toml(machine, row("allreduce", "ring") + row("reduce", "native")));
    log_of_all.clear();
    Comm comm = make_tuned(world, {rank, 2, slot++}, rank == 0 ? file.path() : "nowhere.toml");
    EXPECT_EQ(log_of_all, "");
    EXPECT_EQ(plan(comm.get()), "ring");
    EXPECT_EQ(explain(comm.get(), 100'000)["reason"],
              "measured by echelon tune: 212 us, the model's choice native took 260 us");
    EXPECT_NE(explain(comm.get(), 2 << 20)["plan"], "ring") << "beyond what was measured";
    expect_right(comm.get());
    ech_comm* half = nullptr;
    ASSERT_TRUE(ok(ech_comm_split(comm.get(), rank, 0, &half)));
    EXPECT_EQ(log_of_all, "") << "a part is no other machine";
    close(Comm(half));
    close(std::move(comm));
    setenv("ECHELON_ALGORITHM", "native", 1);
    Comm asked = make_tuned(world, {rank, 2, slot++}, rank == 0 ? file.path() : "");
    EXPECT_EQ(explain(asked.get(), 100'000)["reason"], "asked for");
    unsetenv("ECHELON_ALGORITHM");
    close(std::move(asked));
    Machine other = machine;
    other[4].second = "77";
    const TuningFile foreign(toml(other, row("allreduce", "ring")));
    Comm alone = make_tuned(world, {rank, 2, slot++}, rank == 0 ? foreign.path() : "");
    EXPECT_EQ(plan(alone.get()), "native");
    if (rank == 0) {
      EXPECT_NE(log_of_all.find("\" here, but \"77\" where it was measured"), std::string::npos)
          << log_of_all;
    }
    close(std::move(alone));
  });
}

TEST(TuningFile, ThatIsWrongIsAnErrorOnAllRanks) {
  const World world(4);
  run_processes(2, [&](int rank) {
    const TuningFile file("version = 1\n[machine]\nhosts = 2\n"), empty("");
    const std::pair<std::string, std::string> kCases[] = {
        {file.path(), ":3: machine.hosts: a number; expected a text"},
        {empty.path(), "version: missing"},
        {"nowhere.toml", "rank 0 cannot read the tuning file (of ECHELON_TUNING): nowhere.toml"}};
    int slot = 0;
    for (const auto& [path, said] : kCases) {
      try {
        make_tuned(world, {rank, 2, slot++}, rank == 0 ? path : "");
        ADD_FAILURE() << path << " was accepted";
      } catch (const std::runtime_error& e) {
        EXPECT_NE(std::string(e.what()).find(said), std::string::npos) << e.what();
      }
    }
  });
}

}  // namespace
}  // namespace echelon::test
