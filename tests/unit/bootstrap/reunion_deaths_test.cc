// SPDX-License-Identifier: Apache-2.0
// Survivors that die or stop while they look for each other: processes over real sockets.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "tests/support/ranks.h"
#include "tests/unit/bootstrap/family.h"

namespace echelon {
namespace {

using test::Clock;
using test::expect_error;
using test::expect_together;
using test::in;
using test::milliseconds;
using test::waiting;

using Seats = std::vector<int>;

constexpr milliseconds kPatient{20'000};
constexpr milliseconds kBrief{300};
constexpr milliseconds kSoon{3000 * test::kSlowness};
constexpr int kMostSeats = 16;

// What the processes share.
struct Shared {
  std::atomic<int> ready;  // seats that listen
  std::atomic<int> ports[kMostSeats];
  std::atomic<pid_t> pids[kMostSeats];
};

class Deaths : public testing::Test {
 protected:
  Deaths() {
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = static_cast<Shared*>(memory);
  }
  ~Deaths() override { ::munmap(shared_, sizeof(Shared)); }

  // Runs body(standby) for every seat in a process of its own. All but `killed` must end well.
  void run(int size, const Seats& killed, const std::function<void(Standby&)>& body) {
    for (int seat = 0; seat < size; ++seat) {
      const pid_t pid = ::fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) be(seat, size, body);
      shared_->pids[seat] = pid;
    }
    for (int seat = 0; seat < size; ++seat) {
      if (std::ranges::count(killed, seat) > 0) continue;
      EXPECT_EQ(end_of(seat), 0) << "seat " << seat;
    }
    for (int seat : killed) {
      ::kill(shared_->pids[seat], SIGKILL);
      EXPECT_EQ(end_of(seat), SIGKILL) << "seat " << seat;
    }
  }

  pid_t pid(int seat) const { return shared_->pids[seat]; }
  static void wait_until(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(milliseconds(1));
  }

  Shared* shared_;

 private:
  int end_of(int seat) const {
    int status = -1;
    ::waitpid(shared_->pids[seat], &status, 0);
    return status;
  }

  // Listens after the fork: who dies must not live on in another's copy of its listener.
  [[noreturn]] void be(int seat, int size, const std::function<void(Standby&)>& body) {
    ::alarm(60);
    try {
      Listener listener = listen_on_interface("lo");
      shared_->ports[seat] = listener.address.port();
      ++shared_->ready;
      wait_until([&] { return shared_->ready == size; });
      std::vector<Address> addresses(size, listener.address);
      for (int other = 0; other < size; ++other)
        addresses[other].set_port(static_cast<std::uint16_t>(shared_->ports[other]));
      Standby standby(seat, std::move(listener), addresses, Key{7});
      body(standby);
    } catch (const std::exception& e) {
      ADD_FAILURE() << "seat " << seat << ": " << e.what();
    }
    fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
};

// Runs what callers run: again until it works, and again when somebody is lost after that.
void go_on(Standby& standby, const Seats& survivors) {
  for (;;) {
    try {
      Reunited reunited = reunite(standby, waiting(kPatient));
      if (reunited.seats == survivors)
        return expect_together(std::move(reunited), standby, survivors);
      for (;;) reunited.control->allgather("x", in(kPatient));  // until the victim is dead
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_PEER) << e.what();
    }
  }
}

// Seat 0 leads until it dies; seat 3 comes only then.
TEST_F(Deaths, OfTheLeaderBeforeItDecides) {
  run(4, {0}, [&](Standby& standby) {
    const int seat = standby.self();
    if (seat == 3) {
      std::this_thread::sleep_for(kBrief);
      ::kill(pid(0), SIGKILL);
    }
    const auto start = Clock::now();
    expect_together(reunite(standby, waiting(kPatient)), standby, {1, 2, 3});
    EXPECT_LE(Clock::now() - start, kSoon);
  });
}

TEST_F(Deaths, OfTwoLeadersOneAfterTheOther) {
  run(5, {0, 1}, [&](Standby& standby) {
    const int seat = standby.self();
    if (seat == 4) {
      std::this_thread::sleep_for(kBrief);
      ::kill(pid(0), SIGKILL);
      std::this_thread::sleep_for(kBrief);
      ::kill(pid(1), SIGKILL);
    }
    expect_together(reunite(standby, waiting(kPatient)), standby, {2, 3, 4});
  });
}

TEST_F(Deaths, OfAFollower) {
  run(4, {2}, [&](Standby& standby) {
    if (standby.self() == 3) {
      std::this_thread::sleep_for(kBrief);
      ::kill(pid(2), SIGKILL);
    }
    go_on(standby, {0, 1, 3});
  });
}

// Followers leave a leader that has stopped before the one that comes now goes on without them.
TEST_F(Deaths, ALeaderThatStopsIsLeftAndTold) {
  constexpr milliseconds kWait{3000 * test::kSlowness};
  run(4, {}, [&](Standby& standby) {
    const int seat = standby.self();
    if (seat == 0) {
      expect_error(ECH_ERR_ABORTED, {"has gone on without", test::seat_name(0)}, kPatient,
                   [&] { reunite(standby, waiting(kWait)); });
      return;
    }
    if (seat == 3) {
      std::this_thread::sleep_for(kBrief);
      ::kill(pid(0), SIGSTOP);
    }
    expect_together(reunite(standby, waiting(kWait)), standby, {1, 2, 3});
    if (seat == 3) ::kill(pid(0), SIGCONT);
  });
}

class DeathAt : public Deaths, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Seat, DeathAt, testing::Values(0, 1, 3));

// Nobody waits for the dead, and nobody is left alone, at whichever step it happens.
TEST_P(DeathAt, AnyMoment) {
  Seats survivors = {0, 1, 2, 3};
  std::erase(survivors, GetParam());
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(round);
    new (shared_) Shared{};
    run(4, {GetParam()}, [&](Standby& standby) {
      if (standby.self() != GetParam()) {
        const auto start = Clock::now();
        go_on(standby, survivors);
        EXPECT_LE(Clock::now() - start, kSoon);
        return;
      }
      std::thread([round] {
        std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
        ::raise(SIGKILL);
      }).detach();
      go_on(standby, {});
    });
    if (HasFailure()) return;
  }
}

TEST_F(Deaths, TwoAtAnyMoments) {
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(round);
    new (shared_) Shared{};
    run(5, {0, 2}, [&](Standby& standby) {
      const int seat = standby.self();
      if (seat != 0 && seat != 2) return go_on(standby, {1, 3, 4});
      std::thread([round, seat] {
        const int step = seat == 0 ? round % 5 : round / 5;
        std::this_thread::sleep_for(milliseconds(step));
        ::raise(SIGKILL);
      }).detach();
      go_on(standby, {});
    });
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace echelon
