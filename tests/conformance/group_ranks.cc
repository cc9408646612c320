// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/group_ranks.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "lib/base/error.h"
#include "tests/support/ranks.h"

namespace echelon::test {

struct Board::Page {
  std::atomic<int> arrived;
  std::atomic<int> epoch;
  std::atomic<std::uint64_t> numbers[kMaxRanks];
  struct {
    std::size_t length;
    char bytes[1000];
  } addresses[kMaxRanks];
};

Board::Board() {
  void* page =
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw system_error("map board");
  page_ = new (page) Page{};
}

Board::~Board() { munmap(page_, sizeof(Page)); }

void Board::barrier(int size) {
  const int epoch = page_->epoch;
  if (page_->arrived.fetch_add(1) + 1 == size) {
    page_->arrived = 0;
    ++page_->epoch;
  }
  while (page_->epoch == epoch) sched_yield();
}

void Board::post(int rank, const std::string& address) {
  if (address.size() > sizeof page_->addresses[rank].bytes) throw invalid("address too long");
  page_->addresses[rank].length = address.size();
  std::memcpy(page_->addresses[rank].bytes, address.data(), address.size());
}

std::string Board::address(int rank) const {
  return {page_->addresses[rank].bytes, page_->addresses[rank].length};
}

std::atomic<std::uint64_t>& Board::number(int rank) { return page_->numbers[rank]; }

void GroupRank::wait(int lane) {
  constexpr int kPolls = 20;
  int idle = 0;
  while (!engine.done(lane)) {
    if (engine.progress()) {
      idle = 0;
    } else if (++idle < kPolls) {
      sched_yield();
    } else {
      doze();
      idle = 0;
    }
  }
}

void GroupRank::doze() {
  if (!engine.arm()) return;
  const auto begin = std::chrono::steady_clock::now();
  if (++turns_ % 2 == 0)
    sleep_on(engine.fd(), kSleepLimit);
  else
    engine.sleep(kSleepLimit);
  engine.disarm();
  longest_sleep =
      std::max<std::chrono::nanoseconds>(longest_sleep, std::chrono::steady_clock::now() - begin);
}

void run_group(const GroupCase& make, int size, const std::function<void(GroupRank&)>& body) {
  Board board;
  const auto member = [&](int self) {
    std::unique_ptr<GroupMedium> medium = make.make();
    board.post(self, medium->address());
    board.barrier(size);
    std::vector<std::string> addresses;
    for (int m = 0; m < size; ++m) addresses.push_back(board.address(m));
    std::unique_ptr<GroupEngine> engine = medium->connect(self, addresses);
    board.barrier(size);  // connect() needs all members to be there
    GroupRank rank(self, size, *engine, board, make);
    body(rank);
  };
  make.processes ? run_processes(size, member) : run_threads(size, member);
}

}  // namespace echelon::test
