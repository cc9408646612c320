// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/transport_suite.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct BoardDeleter {
  void operator()(Board* board) const { munmap(board, sizeof(Board)); }
};

std::unique_ptr<Board, BoardDeleter> make_board() {
  void* memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw system_error("mmap");
  return std::unique_ptr<Board, BoardDeleter>(new (memory) Board);
}

// In a child, so that the caller can report that all is well.
void be_killed(const TransportKind& kind, Board& board, int ranks) {
  const pid_t child = fork();
  if (child == 0) {
    TestRank rank(kind, board, ranks - 1, ranks);
    const std::byte data[8] = {};
    std::vector<Completion> sent(ranks - 1);
    for (int i = 0; i < ranks - 1; ++i) rank.transport().send(i, 1, data, sent[i]);
    rank.wait([] { return false; }, milliseconds(200));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

}  // namespace

void Board::publish(int rank, const std::string& address) {
  if (address.size() > kMaxAddress) throw invalid("test: an address is too long for the board");
  std::memcpy(bytes_[rank], address.data(), address.size());
  lengths_[rank] = address.size();
}

std::vector<std::string> Board::addresses(int ranks) const {
  std::vector<std::string> all;
  for (int rank = 0; rank < ranks; ++rank) all.emplace_back(bytes_[rank], lengths_[rank]);
  return all;
}

TestRank::TestRank(const TransportKind& kind, Board& board, int self, int size)
    : board_(board), self_(self), size_(size) {
  auto medium = kind.open();
  board.publish(self, medium->address());
  barrier();
  transport_ = medium->connect(self, board.addresses(size));
}

bool TestRank::wait(const std::function<bool()>& condition, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    if (transport_->progress() || !transport_->arm()) continue;
    transport_->sleep(milliseconds(50));
    transport_->disarm();
  }
  return true;
}

void TestRank::barrier() {
  board_.arrive();
  ++round_;
  while (!board_.all_arrived(size_, round_)) {
    if (!transport_ || !transport_->progress()) usleep(50);
  }
}

void TestRank::meet() {
  board_.arrive();
  ++round_;
  while (!board_.all_arrived(size_, round_)) usleep(50);
}

void TransportSuite::run(int ranks, const std::function<void(TestRank&)>& body) {
  const auto board = make_board();
  const auto one = [&](int self) {
    TestRank rank(GetParam(), *board, self, ranks);
    body(rank);
    rank.barrier();
  };
  GetParam().processes ? run_processes(ranks, one) : run_threads(ranks, one);
}

void TransportSuite::run_with_victim(int ranks, const std::function<void(TestRank&)>& body) {
  const auto board = make_board();
  const int victim = ranks - 1;
  run_processes(ranks, [&](int self) {
    if (self == victim) return be_killed(GetParam(), *board, ranks);
    TestRank rank(GetParam(), *board, self, ranks);
    body(rank);
  });
}

std::vector<std::byte> pattern(std::size_t n, int from, Tag tag) {
  std::vector<std::byte> bytes(n);
  std::uint64_t state = (tag + 1) * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(from);
  for (std::byte& b : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    b = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

}  // namespace echelon::test
