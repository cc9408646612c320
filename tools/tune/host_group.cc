// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/host_group.h"

#include <sched.h>

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "transports/shm/shm_group.h"

namespace echelon::tune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kEntry = 512;
constexpr auto kPatience = std::chrono::seconds(10);
constexpr int kPolls = 20000, kPollsOfACrowd = 2;

struct Entry {
  int host = 0;
  std::string address;
};

// By rank.
std::vector<Entry> entries(const perf::Comm& comm, const std::string& address) {
  std::string mine = ByteWriter().u32(static_cast<std::uint32_t>(comm.host())).text(address).take();
  if (mine.size() > kEntry) throw perf::Failure("tune: an address of shared memory is too long");
  mine.resize(kEntry);
  const std::string all = comm.gather(mine);
  std::vector<Entry> out;
  for (std::size_t at = 0; at < all.size(); at += kEntry) {
    ByteReader in(std::string_view(all).substr(at, kEntry), "address of shared memory");
    out.push_back({static_cast<int>(in.u32()), {}});
    out.back().address = in.text();
  }
  return out;
}

int own_cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

HostGroup::HostGroup(const perf::Comm& comm, const shm::Thresholds& thresholds) {
  ShmOptions options;
  options.thresholds = thresholds;
  std::unique_ptr<GroupMedium> medium = make_shm_group(options);
  std::vector<std::string> members;
  int self = 0;
  for (const Entry& entry : entries(comm, medium->address())) {
    if (entry.host != comm.host()) continue;
    if (entry.address == medium->address()) self = static_cast<int>(members.size());
    members.push_back(entry.address);
  }
  size_ = static_cast<int>(members.size());
  polls_ = size_ > own_cpus() ? kPollsOfACrowd : kPolls;
  if (size_ > 1) engine_ = medium->connect(self, members);
  comm.barrier();  // nobody leaves before all have connected
}

void HostGroup::call(const GroupWork& work) {
  if (!engine_) return;
  engine_->start(0, work);
  await();
  if (engine_->failed() != ECH_OK) throw perf::Failure("tune: shared memory has failed");
}

void HostGroup::await() {
  const auto until = Clock::now() + kPatience;
  for (int idle = 0; !engine_->done(0);) {
    if (engine_->progress()) {
      idle = 0;
    } else if (++idle > polls_) {
      sched_yield();
      if (idle < polls_ + 4 || !engine_->arm()) continue;
      engine_->sleep(std::chrono::seconds(1));
      engine_->disarm();
      idle = 0;
      if (Clock::now() > until)
        throw perf::Failure("tune: another rank of this host does not go on");
    }
  }
}

}  // namespace echelon::tune
