// SPDX-License-Identifier: Apache-2.0
#include "tests/multi/abi_world.h"

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace echelon::test {

struct World::Slot {
  std::atomic<int> ready;
  ech_unique_id id;
};

testing::AssertionResult ok(ech_status status) {
  if (status == ECH_OK) return testing::AssertionSuccess();
  return testing::AssertionFailure() << ech_status_name(status) << ": " << ech_last_error();
}

testing::AssertionResult failed_with(ech_status status, ech_status wanted) {
  const std::string message = ech_last_error();
  const bool one_line = !message.empty() && message.find('\n') == message.npos;
  if (status == wanted && one_line) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << ech_status_name(status) << " (\"" << message << "\"), not " << ech_status_name(wanted);
}

World::World(int ids) : bytes_((ids + 1) * sizeof(Slot)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map memory for ids");
  slots_ = static_cast<Slot*>(memory);  // zeroed: nothing is ready
}

World::~World() { munmap(slots_, bytes_); }

std::atomic<int>& World::counter() const { return slots_[0].ready; }

ech_unique_id World::id(int slot, int rank) const {
  Slot& s = slots_[slot + 1];
  if (rank == 0) {
    if (ech_get_unique_id(&s.id, "lo") != ECH_OK) throw std::runtime_error(ech_last_error());
    s.ready = 1;
  }
  while (!s.ready) usleep(200);
  return s.id;
}

ech_comm_options options_with(double timeout) {
  ech_comm_options options = ECH_COMM_OPTIONS_INIT;
  options.timeout = timeout;
  return options;
}

Comm make_comm(const World& world, const Place& place, ech_comm_options options) {
  const ech_unique_id id = world.id(place.slot, place.rank);
  options.unique_id = &id;
  options.rank = place.rank;
  options.size = place.size;
  options.interface_name = "lo";
  ech_comm* comm = nullptr;
  if (ech_comm_create(&comm, &options) != ECH_OK) throw std::runtime_error(ech_last_error());
  return Comm(comm);
}

void close(Comm comm) { EXPECT_TRUE(ok(ech_comm_destroy(comm.release()))); }

int rank_of(const ech_comm* comm) {
  int rank = -1;
  EXPECT_TRUE(ok(ech_comm_rank(comm, &rank)));
  return rank;
}

int size_of(const ech_comm* comm) {
  int size = 0;
  EXPECT_TRUE(ok(ech_comm_size(comm, &size)));
  return size;
}

void expect_works(ech_comm* comm) {
  const int size = size_of(comm);
  const std::int64_t mine = rank_of(comm) + 1;
  std::int64_t sum = 0;
  EXPECT_TRUE(ok(ech_allreduce(&mine, &sum, 1, ECH_INT64, ECH_SUM, comm)));
  EXPECT_EQ(sum, std::int64_t{size} * (size + 1) / 2);
}

}  // namespace echelon::test
