// SPDX-License-Identifier: Apache-2.0
// No memory in the thread of the control connection: the communicator ends, not the process.
#include <pthread.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "tests/support/ranks.h"
#include "tests/unit/bootstrap/support.h"

namespace {

// Allocations of the control thread from this size on fail.
std::atomic<std::size_t> limit{SIZE_MAX};

}  // namespace

#ifndef ECHELON_SANITIZED  // sanitizers have allocators of their own
namespace {

bool in_control_thread() {
  char name[16] = "";
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return name == std::string_view("echelon-control");
}

}  // namespace

void* operator new(std::size_t bytes) {
  const bool fails = bytes >= limit && in_control_thread();
  void* const memory = fails ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace echelon {
namespace {

using test::expect_error;
using test::in;
using test::kLong;
using test::milliseconds;
using test::within;

constexpr milliseconds kSecond{1000 * test::kSlowness};

// Rank 0 gets `bytes` from every other rank while its thread can allocate less than `least`.
void gather(std::size_t bytes, std::size_t least, ech_status others) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers have allocators of their own";
  const UniqueId id = listen_for_ranks("lo");
  const Fd ready(eventfd(0, EFD_SEMAPHORE));
  test::run_processes(3, [&](int rank) {
    const auto control = join(Identity::with(id, rank, 3), within(kLong));
    control->allgather("ready", in(kLong));
    if (rank == 0) {  // not before the others have the answer, which the thread sends
      eventfd_t one = 0;
      for (int r = 1; r < 3; ++r) eventfd_read(ready.get(), &one);
      limit = least;
    } else {
      eventfd_write(ready.get(), 1);
    }
    const std::string mine(rank == 0 ? 0 : bytes, 'x');
    expect_error(rank == 0 ? ECH_ERR_NO_MEMORY : others, {}, 5 * kSecond,
                 [&] { control->allgather(mine, in(kLong)); });
    expect_error(rank == 0 ? ECH_ERR_NO_MEMORY : others, {}, kSecond, [&] { control->check(); });
  });
}

TEST(Exhausted, LongMessageFailsAllRanksAlike) { gather(8 << 20, 1 << 20, ECH_ERR_NO_MEMORY); }

// Not even a message about it can be sent. The others see the connection end.
TEST(Exhausted, ByEveryAllocationEndsTheConnections) { gather(1 << 20, 1, ECH_ERR_PEER); }

}  // namespace
}  // namespace echelon
