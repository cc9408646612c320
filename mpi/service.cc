// SPDX-License-Identifier: Apache-2.0
#include "mpi/service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "mpi/failure.h"
#include "mpi/join.h"
#include "mpi/progress.h"
#include "mpi/tally.h"

namespace echelon::dropin {
namespace {

using Clock = std::chrono::steady_clock;

// In MPI_Finalize, where the slowest rank may come much later.
constexpr std::chrono::milliseconds kAwake{10};
constexpr std::chrono::microseconds kNap{200};

// Values of our attribute that are no channel.
char of_self, not_served;

// Lives until the process ends: MPI may call back late.
struct Service {
  int keyval = MPI_KEYVAL_INVALID;
  bool progresses = false;
  std::atomic<bool> ended{false};
  std::mutex mutex;  // over the rest
  std::vector<std::unique_ptr<Channel>> channels;
};

Service* service_of_process();

// Called by MPI whenever it progresses.
int step() {
  Service& service = *service_of_process();
  const std::unique_lock lock(service.mutex, std::try_to_lock);
  if (!lock) return 0;  // another thread is here
  int ended = 0;
  if (Channel::under_way() > 0)
    for (const auto& channel : service.channels) ended += channel->advance();
  return ended;
}

// Destroys those that no rank needs any more. True when none is left.
bool reap(Service& service) {
  std::vector<std::unique_ptr<Channel>> over;
  const std::lock_guard lock(service.mutex);
  auto& channels = service.channels;
  const auto gone = std::stable_partition(channels.begin(), channels.end(),
                                          [](const auto& channel) { return !channel->is_over(); });
  std::move(gone, channels.end(), std::back_inserter(over));
  channels.erase(gone, channels.end());
  return channels.empty();
}

void retire_all(Service& service) {
  const std::lock_guard lock(service.mutex);
  for (const auto& channel : service.channels) channel->retire();
}

void report() {
  const char* const level = std::getenv("ECHELON_LOG");
  if (level == nullptr || (std::string_view(level) != "info" && std::string_view(level) != "debug"))
    return;
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  say("rank " + std::to_string(rank) + " served " + tally_text());
}

// MPI_Finalize frees MPI_COMM_SELF before anything else: MPI still works here. Other callbacks of
// MPI_COMM_SELF may come before this one or after it, and may wait for other ranks: so every rank
// has retired its channels before the first of them, in end_service().
void finish(Service& service) {
  service.ended = true;
  retire_all(service);
  const Clock::time_point tired = Clock::now() + kAwake;
  while (!reap(service)) {
    step();
    progress_mpi();
    if (Clock::now() > tired) std::this_thread::sleep_for(kNap);
  }
  if (service.progresses) leave_progress(step);
  report();
}

int on_delete(MPI_Comm, int, void* value, void* service) {
  Service& of = *static_cast<Service*>(service);
  if (value == &of_self) {
    finish(of);
  } else if (value != &not_served && !of.ended) {
    {
      const std::lock_guard lock(of.mutex);  // else step() could see it end, and reap() take it
      static_cast<Channel*>(value)->retire();
    }
    reap(of);
  }
  return MPI_SUCCESS;
}

Service* start_service() {
  auto* const service = new Service;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &service->keyval, service);
  PMPI_Comm_set_attr(MPI_COMM_SELF, service->keyval, &of_self);
  return service;
}

Service* service_of_process() {
  static Service* const service = start_service();
  return service;
}

// Also false before MPI_Init, when MPI says itself what is wrong.
bool is_open(MPI_Comm comm) {
  static std::atomic<bool> initialized{false};
  if (comm == MPI_COMM_NULL || comm == nullptr) return false;
  if (!initialized) {
    int yes = 0;
    PMPI_Initialized(&yes);
    if (yes == 0) return false;
    initialized = true;
  }
  return !service_of_process()->ended;
}

struct Found {
  Channel* channel = nullptr;
  bool known = false;
};

Found find(const Service& service, MPI_Comm comm) {
  void* value = nullptr;
  int flag = 0;
  if (PMPI_Comm_get_attr(comm, service.keyval, &value, &flag) != MPI_SUCCESS)
    return {nullptr, true};
  if (flag == 0) return {};
  const bool served = value != &of_self && value != &not_served;
  return {served ? static_cast<Channel*>(value) : nullptr, true};
}

// With the ranks of several hosts, what one has sent must move while it waits in MPI.
bool joined_progress(Service& service) {
  static const bool joined = join_progress(step);
  service.progresses = joined;
  return joined;
}

Channel* make(Service& service, MPI_Comm comm) {
  reap(service);
  std::unique_ptr<Channel> made = join_ranks(comm, joined_progress(service));
  Channel* const channel = made.get();
  PMPI_Comm_set_attr(comm, service.keyval,
                     channel != nullptr ? static_cast<void*>(channel) : &not_served);
  const std::lock_guard lock(service.mutex);
  if (made) service.channels.push_back(std::move(made));
  return channel;
}

}  // namespace

Channel* channel_for(MPI_Comm comm) {
  if (!is_open(comm)) return nullptr;
  Service& service = *service_of_process();
  const Found found = find(service, comm);
  return found.known ? found.channel : make(service, comm);
}

Channel* existing_channel(MPI_Comm comm) {
  return is_open(comm) ? find(*service_of_process(), comm).channel : nullptr;
}

void end_service() {
  int initialized = 0, finalized = 0;
  PMPI_Initialized(&initialized);
  PMPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) return;
  Service& service = *service_of_process();
  service.ended = true;
  retire_all(service);
}

}  // namespace echelon::dropin
