// SPDX-License-Identifier: Apache-2.0
// The timeline of ranks that know only the C ABI: one file of all ranks, on one clock; after a
// failure a part of each; and nothing where none is wanted.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace echelon::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kRounding = 2e-3;  // us; times have three digits after the point

class Timelines : public testing::Test {
 protected:
  Timelines() { want("t.json"); }
  ~Timelines() override { unsetenv("ECHELON_TIMELINE"); }

  std::string path(const std::string& name) const { return folder_.file(name); }
  void want(const std::string& name) const { setenv("ECHELON_TIMELINE", path(name).c_str(), 1); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  Json read(const std::string& name) const {
    std::ifstream in(path(name));
    EXPECT_TRUE(in) << name << " is not there";
    Json file = Json::parse(in, nullptr, false);
    EXPECT_FALSE(file.is_discarded()) << name << " is no JSON";
    return file;
  }

 private:
  const TempFolder folder_{"timeline"};
};

// Those of a category, in the order of time.
std::vector<Json> events(const Json& file, const std::string& category, int rank) {
  std::vector<Json> found;
  for (const Json& e : file["traceEvents"])
    if (e.value("cat", "") == category && e["pid"] == rank) found.push_back(e);
  std::ranges::stable_sort(found, {}, [](const Json& e) { return e["ts"].get<double>(); });
  return found;
}

double begin_of(const Json& e) { return e["ts"]; }
double end_of(const Json& e) { return begin_of(e) + e["dur"].get<double>(); }
std::uint64_t argument(const Json& e, const char* name) { return e["args"][name]; }

Json find(const std::vector<Json>& events, std::uint64_t sequence) {
  for (const Json& e : events)
    if (argument(e, "sequence") == sequence) return e;
  ADD_FAILURE() << "no operation #" << sequence;
  return {{"ts", 0}, {"dur", 0}, {"args", Json::object()}};
}

// On every row one thing is done after the other.
void expect_rows_in_order(const Json& file) {
  std::map<std::pair<int, int>, std::vector<Json>> rows;
  for (const Json& e : file["traceEvents"])
    if (e["ph"] == "X") rows[{e["pid"], e["tid"]}].push_back(e);
  for (auto& [row, shown] : rows) {
    std::ranges::stable_sort(shown, {}, begin_of);
    for (std::size_t i = 1; i < shown.size(); ++i)
      EXPECT_LE(end_of(shown[i - 1]), begin_of(shown[i]) + kRounding)
          << "rank " << row.first << ": " << shown[i - 1] << " and " << shown[i];
  }
}

// A phase lies within its operation.
void expect_nested(const Json& file, int rank) {
  for (const Json& phase : events(file, "phase", rank)) {
    const Json operation = find(events(file, "operation", rank), argument(phase, "sequence"));
    EXPECT_GE(begin_of(phase), begin_of(operation) - kRounding) << phase << " in " << operation;
    EXPECT_LE(end_of(phase), end_of(operation) + kRounding) << phase << " in " << operation;
  }
}

// What takes part in an allreduce has begun before any other rank can have ended.
void expect_one_clock(const Json& file, int ranks, std::uint64_t sequence) {
  double last_begin = -1e300, first_end = 1e300;
  for (int rank = 0; rank < ranks; ++rank) {
    const Json e = find(events(file, "operation", rank), sequence);
    last_begin = std::max(last_begin, begin_of(e));
    first_end = std::min(first_end, end_of(e));
  }
  EXPECT_LT(last_begin, first_end) << "operation #" << sequence;
}

std::uint64_t total(const std::vector<Json>& phases, const char* name) {
  std::uint64_t sum = 0;
  for (const Json& e : phases) sum += e["args"].value(name, std::uint64_t{0});
  return sum;
}

void reduce(ech_comm* comm, std::size_t count) {
  std::vector<float> data(count, 1.0f);
  ASSERT_TRUE(ok(ech_allreduce(data.data(), data.data(), data.size(), ECH_FLOAT32, ECH_SUM, comm)));
  EXPECT_EQ(data.back(), static_cast<float>(size_of(comm)));
}

TEST_F(Timelines, OfAllRanksAreOneFile) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 5000;
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    for (int i = 0; i < 4; ++i) reduce(comm.get(), kCount);
    ASSERT_TRUE(ok(ech_barrier(comm.get())));
    close(std::move(comm));
  });
  ASSERT_EQ(files(), std::vector<std::string>{"t.json"});
  const Json file = read("t.json");
  EXPECT_EQ(file["otherData"]["ranks"], kRanks);
  expect_rows_in_order(file);
  const char* const calls[] = {"allreduce #0", "allreduce #1", "allreduce #2",
                               "allreduce #3", "barrier #4",   "destroy #5"};
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    const auto operations = events(file, "operation", rank);
    ASSERT_EQ(operations.size(), std::size(calls));
    for (std::size_t i = 0; i < operations.size(); ++i) {
      EXPECT_EQ(operations[i]["name"], calls[i]);
      EXPECT_EQ(operations[i]["args"]["status"], "ok");
    }
    EXPECT_EQ(argument(operations[0], "bytes"), kCount * sizeof(float));
    EXPECT_EQ(operations[0]["args"]["type"], "f32");
    EXPECT_EQ(operations[0]["args"]["plan"], "native");
    const auto phases = events(file, "phase", rank);
    ASSERT_EQ(phases.size(), operations.size());
    EXPECT_EQ(phases[0]["name"], "allreduce(host) by native");
    EXPECT_EQ(argument(phases[0], "shared"), kCount * sizeof(float));
    expect_nested(file, rank);
  }
  for (std::uint64_t sequence = 0; sequence <= 5; ++sequence)
    expect_one_clock(file, kRanks, sequence);
}

// A ring of segments, which overlap: each rank sends 2 (n-1)/n of the buffer.
TEST_F(Timelines, ShowSegmentsAndTheirBytes) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 3 << 16, kBytes = kCount * sizeof(float);
  const World world;
  run_processes(kRanks, [&](int rank) {
    ech_comm_options options = options_with(kPatience);
    options.algorithm = "ring@64KiB";
    Comm comm = make_comm(world, {rank, kRanks}, options);
    reduce(comm.get(), kCount);
    close(std::move(comm));
  });
  const Json file = read("t.json");
  expect_rows_in_order(file);
  expect_one_clock(file, kRanks, 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    const Json operation = find(events(file, "operation", rank), 0);
    EXPECT_EQ(operation["args"]["plan"], "ring@64KiB");
    const std::uint64_t segments = argument(operation, "segments");
    std::vector<Json> ring;
    for (const Json& e : events(file, "phase", rank))
      if (argument(e, "sequence") == 0) ring.push_back(e);
    ASSERT_EQ(ring.size(), segments);
    EXPECT_EQ(ring[0]["name"], "allreduce(host) by ring");
    EXPECT_EQ(total(ring, "bytes"), kBytes);
    for (const char* way : {"sent", "received"}) {
      const double share = static_cast<double>(total(ring, way)) / kBytes;
      EXPECT_NEAR(share, 2.0 * (kRanks - 1) / kRanks, 0.01) << way;
    }
    std::set<std::uint64_t> numbers;
    for (const Json& e : ring) numbers.insert(argument(e, "segment"));
    EXPECT_EQ(*numbers.rbegin(), segments - 1);
    EXPECT_EQ(numbers.size(), segments);
    expect_nested(file, rank);
  }
}

// More operations than lanes: the last wait, and say by which name they were called.
TEST_F(Timelines, ShowNamesAndTheQueue) {
  constexpr int kRanks = 2, kCalls = 20;
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    while (rank == 1 && world.counter() == 0) usleep(10'000);  // rank 0's queue fills meanwhile
    std::vector<std::vector<float>> data(kCalls, std::vector<float>(1000, 1.0f));
    std::vector<ech_request*> requests(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      const std::string name = "bucket " + std::to_string(i);  // is copied
      ech_call call = ECH_CALL_INIT;
      call.name = name.c_str();
      ASSERT_TRUE(ok(ech_iallreduce(data[i].data(), data[i].data(), data[i].size(), ECH_FLOAT32,
                                    ECH_AVG, comm.get(), &call, &requests[i])));
    }
    ++world.counter();
    if (rank == 0) usleep(10'000);
    ASSERT_TRUE(ok(ech_wait_all(requests.size(), requests.data())));
    close(std::move(comm));
  });
  const Json file = read("t.json");
  const auto operations = events(file, "operation", 0);
  for (int i = 0; i < kCalls; ++i) {
    const Json e = find(operations, i);
    EXPECT_EQ(e["name"], "bucket " + std::to_string(i));
    EXPECT_EQ(e["args"]["call"], "allreduce #" + std::to_string(i));
  }
  EXPECT_GT(find(operations, kCalls - 1)["args"]["waited_us"].get<double>(), 5000);
  const Json first = find(events(file, "queue", 0), 8);  // of those that wait for a lane
  EXPECT_EQ(first["name"], "bucket 8");
  EXPECT_GT(first["dur"].get<double>(), 5000);
}

// A list of buffers is packed, and says of how many.
TEST_F(Timelines, ShowWhatIsPacked) {
  constexpr int kRanks = 2;
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    std::vector<float> a(1000, 1.0f), b(3000, 1.0f);
    const void* send[] = {a.data(), b.data()};
    void* recv[] = {a.data(), b.data()};
    const std::size_t counts[] = {a.size(), b.size()};
    ASSERT_TRUE(
        ok(ech_allreduce_many(send, recv, counts, 2, ECH_FLOAT32, ECH_SUM, 1, 1, comm.get())));
    close(std::move(comm));
  });
  const Json file = read("t.json");
  const Json operation = find(events(file, "operation", 1), 0);
  EXPECT_EQ(argument(operation, "buffers"), 2u);
  EXPECT_EQ(argument(operation, "bytes"), 16'000u);
  std::vector<std::string> names;
  for (const Json& e : events(file, "phase", 1))
    if (argument(e, "sequence") == 0) names.push_back(e["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"pack", "allreduce(host) by native", "deliver"}));
}

// The blocks in which the parts travel are smaller than this.
TEST_F(Timelines, MayBeLong) {
  constexpr int kRanks = 2, kCalls = 3000;
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    for (int i = 0; i < kCalls; ++i) {
      ech_request* request = nullptr;
      ech_call call = ECH_CALL_INIT;
      call.name = rank == 0 ? "a name that makes one rank's part longer than the other's" : nullptr;
      ASSERT_TRUE(ok(ech_ibarrier(comm.get(), &call, &request)));
      ASSERT_TRUE(ok(ech_wait(&request)));
    }
    close(std::move(comm));
  });
  EXPECT_GT(fs::file_size(path("t.json")), 1u << 20);
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_GE(events(read("t.json"), "operation", rank).size(), kCalls + 1u);
}

TEST_F(Timelines, OfSeveralCommunicatorsAreSeveralFiles) {
  constexpr int kRanks = 4;
  const World world(2);
  run_processes(kRanks, [&](int rank) {
    Comm first = make_comm(world, {rank, kRanks, 0});
    Comm second = make_comm(world, {rank, kRanks, 1});
    ech_comm* part = nullptr;
    ASSERT_TRUE(ok(ech_comm_split(first.get(), rank % 2, 0, &part)));
    for (ech_comm* comm : {first.get(), second.get(), part}) expect_works(comm);
    close(Comm(part));
    close(std::move(second));
    close(std::move(first));
  });
  const std::vector<std::string> expected = {"t-2.json", "t-split1-0.json", "t-split1-1.json",
                                             "t.json"};
  ASSERT_EQ(files(), expected);
  for (const std::string& name : expected) {
    const Json file = read(name);
    EXPECT_EQ(file["otherData"]["ranks"], name.find("split") == name.npos ? kRanks : 2);
    expect_one_clock(file, 2, 0);
  }
}

TEST_F(Timelines, OfARankThatDiesLeavePartsOfTheOthers) {
  constexpr int kRanks = 3, kVictim = 0;
  const World world;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid > 0) {
      pids.push_back(pid);
      continue;
    }
    Comm comm = make_comm(world, {rank, kRanks}, options_with(30));
    for (int i = 0; i < 3; ++i) reduce(comm.get(), 1000);
    ++world.counter();
    while (rank == kVictim && world.counter() < kRanks) usleep(1000);
    if (rank == kVictim) usleep(300'000), raise(SIGKILL);  // when the others are in the barrier
    EXPECT_TRUE(failed_with(ech_barrier(comm.get()), ECH_ERR_PEER));
    fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);  // the part is there without ech_comm_destroy
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(pids[rank], &status, 0), pids[rank]);
    EXPECT_EQ(status, rank == kVictim ? SIGKILL : 0);
  }
  ASSERT_EQ(files(), (std::vector<std::string>{"t.json.rank1", "t.json.rank2"}));
  for (int rank = 1; rank < kRanks; ++rank) {
    const Json file = read("t.json.rank" + std::to_string(rank));
    EXPECT_EQ(file["otherData"]["ranks"], 1);
    const auto operations = events(file, "operation", rank);
    ASSERT_EQ(operations.size(), 4u);
    EXPECT_EQ(operations[2]["args"]["status"], "ok");
    EXPECT_EQ(operations[3]["name"], "barrier #3");
    EXPECT_EQ(operations[3]["args"]["status"], "peer failed");
  }
}

TEST_F(Timelines, GoOnWithTheSurvivors) {
  constexpr int kRanks = 3;
  const World world;
  run_processes(kRanks, [&](int rank) {
    Comm comm = make_comm(world, {rank, kRanks});
    expect_works(comm.get());
    for (++world.counter(); world.counter() < kRanks;) usleep(1000);
    ech_comm* rest = nullptr;
    ASSERT_TRUE(ok(ech_comm_shrink(comm.get(), &rest)));
    expect_works(rest);
    close(Comm(rest));
  });
  const std::vector<std::string> expected = {"t-shrunk.json", "t.json.rank0", "t.json.rank1",
                                             "t.json.rank2"};
  ASSERT_EQ(files(), expected);
  EXPECT_EQ(read("t-shrunk.json")["otherData"]["ranks"], kRanks);
}

TEST_F(Timelines, ThatCannotBeWrittenAreAnErrorAtOnce) {
  want("missing/t.json");
  const World world;
  run_processes(2, [&](int rank) {
    try {
      make_comm(world, {rank, 2});
      ADD_FAILURE() << "was accepted";
    } catch (const std::runtime_error& e) {
      const std::string message = e.what();
      EXPECT_NE(message.find(path("missing/t.json") + ": No such file"), message.npos) << message;
      EXPECT_NE(message.find("ECHELON_TIMELINE"), message.npos) << message;
    }
  });
}

TEST_F(Timelines, MustBeWantedByAllRanks) {
  const World world;
  run_processes(2, [&](int rank) {
    if (rank == 1) unsetenv("ECHELON_TIMELINE");
    try {
      make_comm(world, {rank, 2});
      ADD_FAILURE() << "was accepted";
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find("timeline o"), std::string::npos) << e.what();
    }
  });
  EXPECT_TRUE(files().empty());
}

TEST_F(Timelines, AreNotWrittenWhereNoneIsWanted) {
  unsetenv("ECHELON_TIMELINE");
  const World world;
  run_processes(2, [&](int rank) {
    fs::current_path(path(""));
    Comm comm = make_comm(world, {rank, 2});
    expect_works(comm.get());
    close(std::move(comm));
  });
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace echelon::test
