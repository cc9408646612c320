// SPDX-License-Identifier: Apache-2.0
// A job of four processes while somebody attacks rank 0's port, from before the others join until
// all have left: it is created in time, computes right results, and leaves no descriptor behind.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/multi/abi_trial.h"
#include "tests/multi/abi_world.h"
#include "tests/multi/attacker.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 4;
constexpr int kProxied = 1;  // the rank that goes through the proxy, where there is one
// Undisturbed, creation takes some 0.1 s; its deadline is 60 s.
constexpr double kInTime = 10.0 * kSlowness;
constexpr const char* kSecret = "d0e1f2031425364758697a8b9cadbecfe0f102132435465768798a9bacbdcedf";

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int open_descriptors() {
  int n = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++n;
  closedir(folder);
  return n;
}

void allow_descriptors(rlim_t wanted) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// What the processes of a test tell each other.
struct Stage {
  std::atomic<int> calm_jobs_done;  // ranks that are through with a job without an attack
  std::atomic<bool> engaged;        // the attack is under way
  std::atomic<int> ready;           // ranks that have the communicator
  std::atomic<int> done;            // ranks that have left it
};

class Hostile : public testing::Test {
 protected:
  void SetUp() override {
    void* memory =
        mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    stage_ = new (memory) Stage{};
  }
  void TearDown() override { munmap(stage_, sizeof(Stage)); }

  void survives(const Attack& attack, const std::function<void()>& prepare_root = {});
  void run_rank(int rank, const std::function<void()>& prepare_root);
  void attack_until_all_left(const Attack& attack) const;
  Comm create(int rank, std::uint16_t port) const;

  Stage* stage_ = nullptr;
  const std::uint16_t calm_port_ = free_port();
  const std::uint16_t port_ = free_port();
  std::unique_ptr<Proxy> proxy_;
};

Comm Hostile::create(int rank, std::uint16_t port) const {
  const bool through_proxy = proxy_ && rank == kProxied && port == port_;
  const std::string root = "127.0.0.1:" + std::to_string(through_proxy ? proxy_->port() : port);
  setenv("ECHELON_RANK", std::to_string(rank).c_str(), 1);
  setenv("ECHELON_SIZE", std::to_string(kRanks).c_str(), 1);
  setenv("ECHELON_ROOT", root.c_str(), 1);
  setenv("ECHELON_SECRET", kSecret, 1);
  ech_comm_options options = options_with(kPatience);
  options.bootstrap = "env";
  ech_comm* comm = nullptr;
  if (ech_comm_create(&comm, &options) != ECH_OK) throw std::runtime_error(ech_last_error());
  return Comm(comm);
}

void work(ech_comm* comm) {
  for (const std::size_t count : {1, 1000, 100'000}) {
    Trial trial(comm, {ECH_ALLREDUCE, count, ECH_FLOAT32, ECH_SUM, 0});
    ASSERT_TRUE(ok(trial.run()));
    trial.check();
  }
}

// The descriptors that a job has while it works, and those that are left when it is over.
struct Descriptors {
  int during = 0;
  int after = 0;
};

Descriptors do_job(Comm comm) {
  Descriptors descriptors;
  work(comm.get());
  descriptors.during = open_descriptors();
  close(std::move(comm));
  descriptors.after = open_descriptors();
  return descriptors;
}

void Hostile::run_rank(int rank, const std::function<void()>& prepare_root) {
  const Descriptors calm = do_job(create(rank, calm_port_));
  ++stage_->calm_jobs_done;
  if (rank == 0 && prepare_root) prepare_root();
  const int before = open_descriptors();
  while (rank != 0 && !stage_->engaged && !(proxy_ && rank == kProxied)) usleep(1000);
  const auto begin = Clock::now();
  Comm comm = create(rank, port_);
  const bool waited_for_the_attack = rank == 0 || (proxy_ && rank == kProxied);
  EXPECT_LT(since(begin), waited_for_the_attack ? 2 * kInTime : kInTime);
  const Descriptors attacked = do_job(std::move(comm));
  EXPECT_EQ(attacked.during - before, calm.during - calm.after);
  EXPECT_EQ(attacked.after, before);
  ++stage_->done;
}

void Hostile::attack_until_all_left(const Attack& attack) const {
  allow_descriptors(8192);
  while (stage_->calm_jobs_done < kRanks) usleep(1000);
  Target target(port_);
  target.await_listener();
  const auto begin = Clock::now();
  attack(target);
  if (!proxy_) stage_->engaged = true;
  while (stage_->done < kRanks) {
    attack(target);
    usleep(1000);
    if (since(begin) > kPatience) FAIL() << "the ranks do not come to an end";
  }
}

void Hostile::survives(const Attack& attack, const std::function<void()>& prepare_root) {
  run_processes(kRanks + 1, [&](int rank) {
    if (rank == kRanks) return attack_until_all_left(attack);
    run_rank(rank, prepare_root);
  });
}

TEST_F(Hostile, RandomBytes) { survives(random_bytes); }
TEST_F(Hostile, TruncatedHellos) { survives(truncated_hellos); }
TEST_F(Hostile, OversizedLengths) { survives(oversized_lengths); }
TEST_F(Hostile, WrongSecrets) { survives(wrong_secrets); }
TEST_F(Hostile, ConnectionsThatAreResetAtOnce) { survives(connect_and_reset); }
TEST_F(Hostile, SlowLoris) { survives(slow_loris(50)); }
TEST_F(Hostile, AThousandIdleConnections) { survives(idle_connections(1000)); }
TEST_F(Hostile, FloodFromTheSameAddress) { survives(flood("127.0.0.1")); }
TEST_F(Hostile, FloodFromAnotherAddress) { survives(flood("127.0.0.2")); }

// Rank 0 runs out of descriptors long before it has given away its places for strangers.
TEST_F(Hostile, AThousandIdleConnectionsWhereDescriptorsAreShort) {
  constexpr int kLimit = 256, kLeft = 40;
  survives(idle_connections(1000), [] {
    allow_descriptors(kLimit);
    while (open_descriptors() < kLimit - kLeft) ASSERT_GE(open("/dev/null", O_RDONLY), 0);
  });
}

TEST_F(Hostile, ReplaysOfAGenuineHello) {
  proxy_ = std::make_unique<Proxy>(port_);
  int refused = 0;
  const Attack replay = replays(*proxy_, refused);
  survives([&](Target& target) {
    replay(target);
    stage_->engaged = refused >= 10;  // only then the other ranks join
  });
}

// ---- on the wire between two ranks
// ---------------------------------------------------------------

// Nobody but the job may end it, except who holds one of its connections. Then it ends at once on
// every rank, and forged bytes are called so.
class OnTheWire : public Hostile {
 protected:
  void ends(const std::function<void(Proxy&)>& forge, ech_status on_rank_zero) {
    proxy_ = std::make_unique<Proxy>(port_);
    run_processes(kRanks + 1, [&](int rank) {
      if (rank == kRanks) return sit_between(forge);
      Comm comm = create(rank, port_);
      work(comm.get());
      ++stage_->ready;
      ech_status status = ECH_OK;
      const auto begin = Clock::now();
      while (status == ECH_OK && since(begin) < kInTime) status = ech_barrier(comm.get());
      if (rank == 0) {
        EXPECT_TRUE(failed_with(status, on_rank_zero));
        EXPECT_NE(std::string(ech_last_error()).find("rank 1"), std::string::npos);
      }
      EXPECT_TRUE(status == ECH_ERR_AUTH || status == ECH_ERR_PEER || status == ECH_ERR_ABORTED)
          << ech_status_name(status) << ": " << ech_last_error();
      ech_comm_destroy(comm.release());
      ++stage_->done;
    });
  }

  void sit_between(const std::function<void(Proxy&)>& forge) {
    Proxy& proxy = *proxy_;
    while (stage_->ready < kRanks) {
      proxy.step();
      usleep(500);
    }
    forge(proxy);
    const auto begin = Clock::now();
    while (stage_->done < kRanks && since(begin) < kPatience) {
      proxy.step();
      usleep(500);
    }
  }
};

TEST_F(OnTheWire, OversizedFrame) {
  ends([](Proxy& proxy) { proxy.inject("\xff\xff\xff\xff\x02\x01"); }, ECH_ERR_AUTH);
}

TEST_F(OnTheWire, FrameWithoutProof) {
  ends(
      [](Proxy& proxy) {
        proxy.inject(std::string("\x01\0\0\0\x02\x01x", 7) + std::string(16, 'p'));
      },
      ECH_ERR_AUTH);
}

TEST_F(OnTheWire, RepeatedFrames) {
  constexpr std::size_t kHelloBytes = 156;
  ends([](Proxy& proxy) { proxy.inject(proxy.recorded().substr(kHelloBytes)); }, ECH_ERR_AUTH);
}

TEST_F(OnTheWire, FrameCutShort) {
  ends(
      [](Proxy& proxy) {
        proxy.inject(std::string("\x01\0\0\0\x02", 5));
        proxy.close();
      },
      ECH_ERR_PEER);
}

}  // namespace
}  // namespace echelon::test
