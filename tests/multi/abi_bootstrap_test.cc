// SPDX-License-Identifier: Apache-2.0
// Communicators made in every way that the C ABI offers, by processes; and what the environment
// says of them: plans, measured links, Slurm's switches.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

constexpr int kRanks = 3;

using Variables = std::map<std::string, std::string>;

// One that nobody listens on.
std::string free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(fd, raw, length), 0);
  EXPECT_EQ(getsockname(fd, raw, &length), 0);
  ::close(fd);
  return std::to_string(ntohs(address.sin_port));
}

// With what the environment says, and nothing else.
Comm create() {
  ech_comm_options options = options_with(kPatience);
  options.interface_name = "lo";
  ech_comm* comm = nullptr;
  EXPECT_TRUE(ok(ech_comm_create(&comm, &options)));
  return Comm(comm);
}

// What a launcher sets on every rank, and the names of the variables for rank and size.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  Variables others;
};

class Launched : public testing::TestWithParam<Launcher> {};
INSTANTIATE_TEST_SUITE_P(
    By, Launched,
    testing::Values(Launcher{"torchrun",
                             "RANK",
                             "WORLD_SIZE",
                             {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}}},
                    Launcher{"OpenMpi",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}},
                    Launcher{"Slurm",
                             "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS",
                             {{"SLURM_STEP_ID", "0"},
                              {"SLURM_JOB_ID", "4711"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_STEP_NODELIST", "127.0.0.1,other[1-3]"}}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(Launched, RanksFindEachOther) {
  const std::string port = free_port();
  run_processes(kRanks, [&](int rank) {
    Variables variables = GetParam().others;
    variables[GetParam().rank] = std::to_string(rank);
    variables[GetParam().size] = std::to_string(kRanks);
    if (GetParam().name == std::string_view("OpenMpi"))
      variables["ECHELON_ROOT"] = "127.0.0.1:" + port;
    else
      variables["ECHELON_PORT"] = port;
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    Comm comm = create();
    ASSERT_NE(comm, nullptr);
    EXPECT_EQ(rank_of(comm.get()), rank);
    EXPECT_EQ(size_of(comm.get()), kRanks);
    expect_works(comm.get());
    close(std::move(comm));
  });
}

// The caller's own allgather, over memory that the processes share.
struct Hall {
  std::atomic<int> arrived;
  char bytes[kRanks][4096];
};

struct Guest {
  Hall* hall;
  int rank;
};

int gather(const void* send, void* recv, std::size_t bytes, void* context) {
  const auto& guest = *static_cast<const Guest*>(context);
  if (bytes > sizeof guest.hall->bytes[0]) return 1;
  std::memcpy(guest.hall->bytes[guest.rank], send, bytes);
  ++guest.hall->arrived;
  while (guest.hall->arrived < kRanks) usleep(100);
  for (int r = 0; r < kRanks; ++r)
    std::memcpy(static_cast<char*>(recv) + r * bytes, guest.hall->bytes[r], bytes);
  return 0;
}

ech_comm_options by_callback(Guest& guest, ech_allgather_fn function) {
  ech_comm_options options = options_with(kPatience);
  options.allgather = function;
  options.allgather_context = &guest;
  options.rank = guest.rank;
  options.size = kRanks;
  options.interface_name = "lo";
  return options;
}

TEST(Callback, BringsTheRanksTogether) {
  void* const memory =
      mmap(nullptr, sizeof(Hall), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Hall* const hall = new (memory) Hall{};
  run_processes(kRanks, [&](int rank) {
    Guest guest{hall, rank};
    const ech_comm_options options = by_callback(guest, gather);
    ech_comm* comm = nullptr;
    ASSERT_TRUE(ok(ech_comm_create(&comm, &options)));
    EXPECT_EQ(rank_of(comm), rank);
    expect_works(comm);
    close(Comm(comm));
  });
  munmap(memory, sizeof(Hall));
}

TEST(Callback, ThatFailsIsAnErrorOfTheCall) {
  Guest guest{nullptr, 1};
  const ech_comm_options options =
      by_callback(guest, [](const void*, void*, std::size_t, void*) { return 7; });
  ech_comm* comm = nullptr;
  EXPECT_TRUE(failed_with(ech_comm_create(&comm, &options), ECH_ERR_INVALID));
  EXPECT_NE(std::string(ech_last_error()).find("returned 7"), std::string::npos);
}

// ---- what the environment says besides ----------------------------------------------------------

nlohmann::json parsed(char* text) {
  const auto json = nlohmann::json::parse(text);
  ech_text_free(text);
  return json;
}

nlohmann::json fabric_of(const ech_comm* comm) {
  char* text = nullptr;
  EXPECT_TRUE(ok(ech_comm_fabric(comm, ECH_JSON, &text)));
  return parsed(text);
}

std::string plan_of(ech_comm* comm, std::size_t count) {
  ech_question question = ECH_QUESTION_INIT;
  question.count = count;
  char* text = nullptr;
  EXPECT_TRUE(ok(ech_comm_explain(comm, &question, ECH_JSON, &text)));
  return parsed(text).at("plan");
}

TEST(Environment, WantedPlanIsTaken) {
  for (const char* plan : {"ring", "halving_doubling@64KiB"}) {
    const World world;
    run_processes(kRanks, [&](int rank) {
      setenv("ECHELON_ALGORITHM", plan, 1);
      Comm comm = make_comm(world, {rank, kRanks});
      EXPECT_EQ(plan_of(comm.get(), 1 << 20).rfind(plan, 0), 0u) << plan_of(comm.get(), 1 << 20);
      expect_works(comm.get());
      ech_counters counters = {};
      counters.struct_size = sizeof counters;
      EXPECT_TRUE(ok(ech_comm_counters(comm.get(), &counters)));
      EXPECT_GT(counters.network_messages, 0u) << "a plan of messages";
      close(std::move(comm));
    });
  }
}

// A sum that is the same on all ranks when the texts are.
void expect_same(const std::string& text, ech_comm* comm) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::uint64_t least = 0, most = 0;
  EXPECT_TRUE(ok(ech_allreduce(&hash, &least, 1, ECH_UINT64, ECH_MIN, comm)));
  EXPECT_TRUE(ok(ech_allreduce(&hash, &most, 1, ECH_UINT64, ECH_MAX, comm)));
  EXPECT_EQ(least, most) << text;
}

TEST(Environment, MeasuredLinksAreInTheFabricOfAllRanks) {
  const World world;
  run_processes(2, [&](int rank) {
    setenv("ECHELON_PROBE", "1", 1);
    Comm comm = make_comm(world, {rank, 2});
    const nlohmann::json fabric = fabric_of(comm.get());
    const nlohmann::json& host = fabric.at("tier").at("host");
    EXPECT_EQ(host.at("bandwidth_source"), "measured");
    EXPECT_EQ(host.at("latency_source"), "measured");
    expect_same(fabric.dump(), comm.get());
    close(std::move(comm));
  });
}

TEST(Environment, WithoutAProbeNothingIsMeasured) {
  const World world;
  run_processes(2, [&](int rank) {
    setenv("ECHELON_PROBE", "0", 1);
    Comm comm = make_comm(world, {rank, 2});
    EXPECT_EQ(fabric_of(comm.get()).dump().find("measured"), std::string::npos);
    close(std::move(comm));
  });
}

TEST(Environment, SlurmsSwitchesAreRacks) {
  const World world;
  run_processes(2, [&](int rank) {
    setenv("SLURM_TOPOLOGY_ADDR", "core.leaf3.node17", 1);
    setenv("SLURM_TOPOLOGY_ADDR_PATTERN", "switch.switch.node", 1);
    Comm comm = make_comm(world, {rank, 2});
    EXPECT_EQ(fabric_of(comm.get()).at("rack").at(0).at("name"), "leaf3");
    close(std::move(comm));
  });
}

}  // namespace
}  // namespace echelon::test
