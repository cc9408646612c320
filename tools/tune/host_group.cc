// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/host_group.h"

#include <sched.h>

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/fabric/cpu_set.h"
#include "transports/shm/shm_group.h"

namespace echelon::tune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kEntry = 4096;
constexpr auto kPatience = std::chrono::seconds(10);
// As the engine's (lib/engine), by the clock.
constexpr int kPolls = 4000, kPollsOfACrowd = 24;
constexpr auto kSpin = std::chrono::microseconds(200);

struct Entry {
  int host = 0;
  std::string address;
  CpuSet cpus;
};

// By rank.
std::vector<Entry> entries(const perf::Comm& comm, const std::string& address) {
  std::string mine = ByteWriter()
                         .u32(static_cast<std::uint32_t>(comm.host()))
                         .text(address)
                         .text(allowed_cpus().list())
                         .take();
  if (mine.size() > kEntry) throw perf::Failure("tune: an address of shared memory is too long");
  mine.resize(kEntry);
  const std::string all = comm.gather(mine);
  std::vector<Entry> out;
  for (std::size_t at = 0; at < all.size(); at += kEntry) {
    ByteReader in(std::string_view(all).substr(at, kEntry), "address of shared memory");
    out.push_back({static_cast<int>(in.u32()), {}, {}});
    out.back().address = in.text();
    out.back().cpus = CpuSet::parse(in.text()).value_or(CpuSet());
  }
  return out;
}

}  // namespace

HostGroup::HostGroup(const perf::Comm& comm, const shm::Thresholds& thresholds) {
  ShmOptions options;
  options.thresholds = thresholds;
  std::unique_ptr<GroupMedium> medium = make_shm_group(options);
  std::vector<std::string> members;
  CpuSet cpus;
  int self = 0;
  for (const Entry& entry : entries(comm, medium->address())) {
    if (entry.host != comm.host()) continue;
    if (entry.address == medium->address()) self = static_cast<int>(members.size());
    members.push_back(entry.address);
    cpus.add(entry.cpus);
  }
  size_ = static_cast<int>(members.size());
  polls_ = size_ > cpus.count() ? kPollsOfACrowd : kPolls;
  if (size_ > 1) engine_ = medium->connect(self, members);
  comm.barrier();  // nobody leaves before all have connected
}

void HostGroup::call(const GroupWork& work) {
  if (!engine_) return;
  engine_->start(0, work);
  await();
  if (engine_->failed() != ECH_OK) throw perf::Failure("tune: shared memory has failed");
}

shm::KnownWays HostGroup::ways() const { return engine_ ? ways_found(*engine_) : shm::KnownWays(); }

void HostGroup::await() {
  auto moved = Clock::now();
  for (int idle = 0; !engine_->done(0);) {
    if (engine_->progress()) {
      idle = 0;
    } else if (++idle == polls_) {
      moved = Clock::now();
    } else if (idle > polls_) {
      rest(moved);
    }
  }
}

// Gives the core away, and sleeps where nothing has moved for long.
void HostGroup::rest(std::chrono::steady_clock::time_point moved) {
  sched_yield();
  const auto idle = Clock::now() - moved;
  if (idle < kSpin || !engine_->arm()) return;
  engine_->sleep(std::chrono::seconds(1));
  engine_->disarm();
  if (idle > kPatience) throw perf::Failure("tune: another rank of this host does not go on");
}

}  // namespace echelon::tune
