// SPDX-License-Identifier: Apache-2.0
// A host that lacks something, seen through the C ABI: a /dev/shm that is full, ports that are used
// up. All ranks are on that host, which is this machine with a namespace of its own. Nobody crashes
// or hangs; who cannot go on says what is lacking and what helps.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "tests/multi/abi_world.h"
#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

constexpr int kRanks = 4;

bool matches(const std::string& text, const char* pattern) {
  return std::regex_search(text, std::regex(pattern, std::regex::extended));
}

// ---- hosts --------------------------------------------------------------------------------------

// Runs `body` in a process that has made its host another by `prepare`, which returns why that is
// not possible here, or nothing.
using Prepare = std::function<std::string()>;

std::string reason(const char* what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

void run_on_host(const Prepare& prepare, const std::function<void()>& body) {
  constexpr int kSkipped = 77;
  const Fd said(memfd_create("reason", MFD_CLOEXEC));
  fflush(nullptr);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    if (const std::string why = prepare(); !why.empty())
      _exit(write(said.get(), why.data(), why.size()) > 0 ? kSkipped : 1);
    body();
    fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  char why[200] = {};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) {
    EXPECT_GT(pread(said.get(), why, sizeof why - 1, 0), 0);
    GTEST_SKIP() << "no such host can be made here: " << why;
  }
  EXPECT_EQ(status, 0);
}

// ---- ranks --------------------------------------------------------------------------------------

struct Told {
  std::vector<std::string> lines;  // of the log
  std::string error;               // of what failed, if something did
};

void keep_line(ech_log_level, const char* message, void* context) {
  static_cast<std::vector<std::string>*>(context)->push_back(message);
}

// By which the ranks meet without a port that is given out.
struct Variables {
  explicit Variables(int rank) {
    setenv("ECHELON_RANK", std::to_string(rank).c_str(), 1);
    setenv("ECHELON_SIZE", std::to_string(kRanks).c_str(), 1);
    setenv("ECHELON_ROOT", "127.0.0.1:20400", 1);
    setenv("ECHELON_SECRET", std::string(64, 'a').c_str(), 1);
  }
};

// Sums of few and of many elements, and everything that the log and the error say.
Told sum(int rank, const char* plan) {
  Told told;
  ech_comm_options options = options_with(5);
  options.algorithm = plan;
  options.log = keep_line;
  options.log_context = &told.lines;
  options.log_level = ECH_LOG_WARN;
  try {
    const Variables variables(rank);
    ech_comm* made = nullptr;
    if (ech_comm_create(&made, &options) != ECH_OK) throw std::runtime_error(ech_last_error());
    const Comm comm(made);
    for (const std::size_t count : {1, 1'000, 1'000'000}) {
      std::vector<float> data(count, float(rank + 1));
      if (ech_allreduce(data.data(), data.data(), count, ECH_FLOAT32, ECH_SUM, comm.get()) !=
          ECH_OK)
        throw std::runtime_error(ech_last_error());
      EXPECT_EQ(std::ranges::count(data, 10.0f), std::ptrdiff_t(count));
    }
  } catch (const std::runtime_error& e) {
    told.error = e.what();
  }
  return told;
}

// ---- ports --------------------------------------------------------------------------------------

// A network of its own, of loopback only, in which so many ports are given out.
std::string make_network(int ports) {
  if (unshare(CLONE_NEWNET) != 0) return reason("unshare(CLONE_NEWNET)");
  const Fd any(socket(AF_INET, SOCK_DGRAM, 0));
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  if (ioctl(any.get(), SIOCSIFFLAGS, &loopback) != 0) return reason("ioctl(SIOCSIFFLAGS)");
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range << 40000 << ' ' << 40000 + ports - 1 << std::flush;
  return range ? "" : reason("ip_local_port_range");
}

struct Ports {
  const char* plan;
  int number;
};

std::ostream& operator<<(std::ostream& out, const Ports& p) {
  return out << p.number << " ports, plan " << (p.plan == nullptr ? "native" : p.plan);
}

class FewPorts : public testing::TestWithParam<Ports> {};

// Either all works, or all fail and some rank says of what there is too little.
TEST_P(FewPorts, AreNamed) {
  constexpr int kWorks = 1000;
  run_on_host([] { return make_network(GetParam().number); },
              [] {
                const World world;
                const auto rank_main = [&](int rank) {
                  const Told told = sum(rank, GetParam().plan);
                  if (told.error.empty()) world.counter() += kWorks;
                  if (matches(told.error, "port.*sysctl net.ipv4.ip_local_port_range"))
                    ++world.counter();
                };
                run_processes(kRanks, rank_main, std::chrono::seconds(20));
                const int count = world.counter();
                const bool all_work = count == kRanks * kWorks;
                EXPECT_TRUE(all_work || (count > 0 && count < kWorks)) << count;
                EXPECT_TRUE(all_work || GetParam().number < 100);
              });
}

// Too few to meet; to listen for each other; for UCX to listen; to connect.
INSTANTIATE_TEST_SUITE_P(Shared, FewPorts,
                         testing::Values(Ports{nullptr, 1}, Ports{nullptr, 3}, Ports{nullptr, 5},
                                         Ports{nullptr, 6}, Ports{"ring", 7}, Ports{"ring", 8},
                                         Ports{"ring", 16}, Ports{"ring", 24}, Ports{"ring", 100}));

// The meeting point of a job that somebody else starts.
TEST(NoPort, ForAUniqueId) {
  run_on_host([] { return make_network(1); },
              [] {
                ech_unique_id first, second;
                EXPECT_TRUE(ok(ech_get_unique_id(&first, "lo")));
                EXPECT_TRUE(failed_with(ech_get_unique_id(&second, "lo"), ECH_ERR_SYSTEM));
                EXPECT_TRUE(matches(ech_last_error(), "no port is left .*ip_local_port_range"))
                    << ech_last_error();
              });
}

// ---- /dev/shm -----------------------------------------------------------------------------------

std::string mount_shm(const char* size) {
  if (unshare(CLONE_NEWNS) != 0) return reason("unshare(CLONE_NEWNS)");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return reason("mount /");
  const std::string options = fmt::format("size={}", size);
  if (mount("tmpfs", "/dev/shm", "tmpfs", 0, options.c_str()) != 0) return reason("mount tmpfs");
  return {};
}

// UCX takes 4.1 MiB for each rank: none has room, one, three, all by a hair. Those that ask at once
// can also keep the room from each other.
class SmallShm : public testing::TestWithParam<std::pair<const char*, int>> {};

// Who has no room says so in one line.
void expect_shm_named(const Told& told) {
  ASSERT_LE(told.lines.size(), 1U) << told.lines[1];
  for (const std::string& line : told.lines)
    EXPECT_TRUE(matches(line,
                        "^messages between ranks of this host take the network: ucx: .+ "
                        "\\(/dev/shm has [0-9]+ of [0-9]+ KiB free; mount -o remount,size=50% "
                        "/dev/shm, or docker --shm-size"))
        << line;
}

TEST_P(SmallShm, CostsSpeedAndOneLine) {
  const auto [size, most_with_room] = GetParam();
  run_on_host([size] { return mount_shm(size); },
              [most = most_with_room] {
                const World world;
                run_processes(kRanks, [&](int rank) {
                  const Told told = sum(rank, "ring");
                  EXPECT_EQ(told.error, "");
                  expect_shm_named(told);
                  if (told.lines.empty()) ++world.counter();
                });
                EXPECT_LE(world.counter(), most);
                if (most == kRanks) {
                  EXPECT_EQ(world.counter(), most);
                }
              });
}

INSTANTIATE_TEST_SUITE_P(Sizes, SmallShm,
                         testing::Values(std::pair{"64k", 0}, std::pair{"5m", 1},
                                         std::pair{"13m", 3}, std::pair{"17m", 4}),
                         [](const auto& p) { return std::string(p.param.first); });

// One rank was killed while UCX made its segment, another uses one. (It has the name still.)
TEST(ShmOf, ThoseThatWereKilledIsFreed) {
  const auto make_segments = [] {
    std::string why = mount_shm("64m");
    if (why.empty()) std::ofstream("/dev/shm/ucx_shm_posix_dead") << "x";
    return why;
  };
  run_on_host(make_segments, [] {
    const Fd used(open("/dev/shm/ucx_shm_posix_used", O_CREAT | O_RDWR, 0600));
    std::ofstream("/dev/shm/other") << "x";
    const World world;
    run_processes(kRanks, [&](int rank) { EXPECT_EQ(sum(rank, "ring").error, ""); });
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      names.insert(entry.path().filename());
    EXPECT_EQ(names, (std::set<std::string>{"other", "ucx_shm_posix_used"}));
  });
}

// Echelon's own shared memory is not there.
TEST(SmallShmOf, NoUseToTheNativePlan) {
  run_on_host([] { return mount_shm("4k"); },
              [] {
                const World world;
                run_processes(kRanks, [&](int rank) {
                  const Told told = sum(rank, nullptr);
                  EXPECT_EQ(told.error, "");
                  EXPECT_EQ(told.lines, std::vector<std::string>());
                });
              });
}

}  // namespace
}  // namespace echelon::test
