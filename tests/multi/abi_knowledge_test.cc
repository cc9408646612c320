// SPDX-License-Identifier: Apache-2.0
// What a communicator tells of itself through the C ABI: the fabric in every format, counters, and
// how the options that change plans show in explanations.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using nlohmann::json;

std::string taken(char* text) {
  const std::string copy = text;
  ech_text_free(text);
  return copy;
}

std::string fabric(ech_comm* comm, ech_format format) {
  char* text = nullptr;
  EXPECT_TRUE(ok(ech_comm_fabric(comm, format, &text)));
  return text != nullptr ? taken(text) : "";
}

json explain(ech_comm* comm, std::size_t count) {
  ech_question question = ECH_QUESTION_INIT;
  question.count = count;
  char* text = nullptr;
  EXPECT_TRUE(ok(ech_comm_explain(comm, &question, ECH_JSON, &text)));
  return json::parse(text != nullptr ? taken(text) : "{}", nullptr, false);
}

ech_counters counters(ech_comm* comm) {
  ech_counters now{};
  now.struct_size = sizeof now;
  EXPECT_TRUE(ok(ech_comm_counters(comm, &now)));
  return now;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// A file with `text` as long as it lives.
class TextFile {
 public:
  TextFile(const std::string& name, const std::string& text)
      : path_(testing::TempDir() + "echelon-" + name + "-" + std::to_string(getpid()) + ".toml") {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::remove(path_.c_str()); }
  TextFile(const TextFile&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  const std::string path_;
};

TEST(Fabric, AsTextAndJson) {
  const World world;
  run_processes(3, [&](int rank) {
    Comm comm = make_comm(world, {rank, 3});
    const std::string text = fabric(comm.get(), ECH_TEXT);
    EXPECT_EQ(text.find("cluster: 1 host, 3 ranks\n"), 0u) << text;
    EXPECT_NE(text.find("  host " + host_name() + ":"), text.npos) << text;
    EXPECT_NE(text.find("ranks: 0 1 2\n"), text.npos) << text;
    const json j = json::parse(fabric(comm.get(), ECH_JSON), nullptr, false);
    ASSERT_EQ(j["host"].size(), 1u) << j;
    EXPECT_EQ(j["host"][0]["name"], host_name());
    close(std::move(comm));
  });
}

// What is written as TOML and read as the fabric file of another communicator is the same again.
TEST(Fabric, AsTomlIsReadBack) {
  const World world(2);
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    const std::string toml = fabric(comm.get(), ECH_TOML);
    EXPECT_NE(toml.find("[[host]]"), toml.npos) << toml;
    EXPECT_NE(toml.find("name = \"" + host_name() + '"'), toml.npos) << toml;
    const TextFile file("dump", toml);
    ech_comm_options options = options_with(kPatience);
    options.fabric_file = file.path();
    Comm again = make_comm(world, {rank, 2, 1}, options);
    EXPECT_EQ(fabric(again.get(), ECH_TOML), toml);
    EXPECT_EQ(fabric(again.get(), ECH_TEXT), fabric(comm.get(), ECH_TEXT));
    close(std::move(again));
    close(std::move(comm));
  });
}

// Only rank 0 reads it; all plan with it.
TEST(Options, TheFabricFileChangesThePlans) {
  const World world(2);
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    EXPECT_LT(explain(comm.get(), 8)["predicted_us"], 7000);
    const TextFile file("slow", "[tier.host]\nlatency = \"7 ms\"\n");
    ech_comm_options options = options_with(kPatience);
    options.fabric_file = rank == 0 ? file.path() : nullptr;
    Comm slow = make_comm(world, {rank, 2, 1}, options);
    EXPECT_GE(explain(slow.get(), 8)["predicted_us"], 7000);
    expect_works(slow.get());
    close(std::move(slow));
    close(std::move(comm));
  });
}

// Without a probe the numbers are those that everybody has; with one, those of this machine.
TEST(Options, TheProbeMeasures) {
  setenv("ECHELON_PROBE", "1", 1);  // the option wins
  const World world(3);
  run_processes(2, [&](int rank) {
    const auto predicted = [&](int slot, int probe) -> double {
      ech_comm_options options = options_with(kPatience);
      options.probe = probe;
      Comm comm = make_comm(world, {rank, 2, slot}, options);
      const double us = explain(comm.get(), 1 << 20)["predicted_us"];
      close(std::move(comm));
      return us;
    };
    const double assumed = predicted(0, -1);
    EXPECT_EQ(predicted(1, -1), assumed);
    const double measured = predicted(2, 0);
    EXPECT_TRUE(std::isfinite(measured) && measured > 0) << measured;
    EXPECT_NE(measured, assumed);
  });
  unsetenv("ECHELON_PROBE");
}

TEST(Options, RanksMustAgreeOnTheProbe) {
  const World world;
  run_processes(2, [&](int rank) {
    ech_comm_options options = options_with(kPatience);
    options.probe = rank == 0 ? 1 : -1;
    try {
      make_comm(world, {rank, 2}, options);
      ADD_FAILURE() << "one measures and the other does not";
    } catch (const std::runtime_error& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("probe 0"), text.npos) << text;
      EXPECT_NE(text.find("rank 1 on " + host_name()), text.npos) << text;
    }
  });
}

constexpr std::size_t kBytes = 1 << 20;

// What one allreduce of kBytes on two ranks adds.
ech_counters growth(const World& world, int rank, const char* algorithm) {
  ech_comm_options options = options_with(kPatience);
  options.algorithm = algorithm;
  Comm comm = make_comm(world, {rank, 2}, options);
  expect_works(comm.get());
  const ech_counters before = counters(comm.get());
  std::vector<float> data(kBytes / sizeof(float), 1);
  EXPECT_TRUE(
      ok(ech_allreduce(data.data(), data.data(), data.size(), ECH_FLOAT32, ECH_SUM, comm.get())));
  ech_counters now = counters(comm.get());
  close(std::move(comm));
  now.operations -= before.operations;
  now.bytes -= before.bytes;
  now.network_bytes -= before.network_bytes;
  now.network_messages -= before.network_messages;
  now.shared_bytes -= before.shared_bytes;
  now.plans -= before.plans;
  return now;
}

TEST(Counters, OfSharedMemory) {
  const World world;
  run_processes(2, [&](int rank) {
    const ech_counters c = growth(world, rank, nullptr);
    EXPECT_EQ(c.operations, 1u);
    EXPECT_EQ(c.bytes, kBytes);
    EXPECT_EQ(c.plans, 1u);
    EXPECT_EQ(c.shared_bytes, kBytes) << "half to add, half of the sum";
    EXPECT_EQ(c.network_bytes, 0u);
    EXPECT_EQ(c.network_messages, 0u);
  });
}

TEST(Counters, OfMessages) {
  const World world;
  run_processes(2, [&](int rank) {
    const ech_counters c = growth(world, rank, "ring");
    EXPECT_EQ(c.operations, 1u);
    EXPECT_EQ(c.bytes, kBytes);
    EXPECT_EQ(c.network_bytes, kBytes) << "half to be added, half of the sum";
    EXPECT_GE(c.network_messages, 2u);
    EXPECT_EQ(c.shared_bytes, 0u);
  });
}

TEST(Counters, OfWaits) {
  const World world;
  run_processes(2, [&](int rank) {
    Comm comm = make_comm(world, {rank, 2});
    const ech_counters before = counters(comm.get());
    if (rank == 1) usleep(400'000);
    EXPECT_TRUE(ok(ech_barrier(comm.get())));
    const std::uint64_t waits = counters(comm.get()).waits - before.waits;
    if (rank == 0) {
      EXPECT_GE(waits, 2u) << "it sleeps at most 0.1 s at a time";
    }
    EXPECT_LT(waits, 100u);
    close(std::move(comm));
  });
}

}  // namespace
}  // namespace echelon::test
