// SPDX-License-Identifier: Apache-2.0
#include "mpi/channel.h"

#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "mpi/environment.h"
#include "mpi/failure.h"
#include "mpi/progress.h"

namespace echelon::dropin {
namespace {

constexpr int kPollsAlone = 64;       // before MPI may progress as well
constexpr int kPollsWithCore = 1024;  // before others get the core
constexpr double kNever = 1e9;        // s

// MPI knows no deadlines. Who sets Echelon's wants it, but not for a farewell, which comes as late
// as the slowest rank.
ech_call settings(bool farewell) {
  ech_call call = ECH_CALL_INIT;
  static const bool limited = is_set("ECHELON_TIMEOUT");
  call.timeout = limited && !farewell ? 0 : kNever;
  call.memory = ECH_MEMORY_HOST;
  return call;
}

ech_status start_task(const Task& t, ech_comm* comm, const ech_call* call, ech_request** request) {
  switch (t.collective) {
    case ECH_ALLREDUCE:
      return ech_iallreduce(t.send, t.recv, t.count, t.dtype, t.op, comm, call, request);
    case ECH_REDUCE_SCATTER:
      return ech_ireduce_scatter(t.send, t.recv, t.count, t.dtype, t.op, comm, call, request);
    case ECH_ALLGATHER:
      return ech_iallgather(t.send, t.recv, t.count, t.dtype, comm, call, request);
    case ECH_BROADCAST:
      return ech_ibroadcast(t.send, t.recv, t.count, t.dtype, t.root, comm, call, request);
    case ECH_REDUCE:
      return ech_ireduce(t.send, t.recv, t.count, t.dtype, t.op, t.root, comm, call, request);
    default:
      return ech_ibarrier(comm, call, request);
  }
}

std::atomic<int> going{0};

Outcome outcome_of(ech_status status) {
  return status == ECH_OK ? Outcome{} : Outcome{status, ech_last_error()};
}

}  // namespace

Channel::Channel(ech_comm* comm) : comm_(comm) {
  ech_comm_rank(comm, &rank_);
  ech_comm_size(comm, &size_);
}

Channel::~Channel() {
  ech_comm_abort(comm_);
  ech_comm_destroy(comm_);
}

Outcome Channel::begin(const Task& task, ech_request** operation) {
  const ech_call call = settings(retired_);
  return outcome_of(start_task(task, comm_, &call, operation));
}

// True when it has ended; then it is gone.
bool Channel::poll(ech_request*& operation, Outcome& outcome) {
  int done = 0;
  ech_test(operation, &done);
  if (done == 0) return false;
  outcome = outcome_of(ech_wait(&operation));
  return true;
}

Outcome Channel::run(const Task& task) {
  ech_request* operation = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const Outcome begun = begin(task, &operation);
    if (begun.status != ECH_OK) return begun;
  }
  Outcome outcome;
  for (int polls = 1;; ++polls) {
    {
      const std::lock_guard lock(mutex_);
      if (poll(operation, outcome)) return outcome;
    }
    // Others may be unable to come before this rank's MPI has moved something.
    if (polls > kPollsAlone) progress_mpi();
    if (polls > kPollsWithCore) sched_yield();
  }
}

Outcome Channel::start(const Task& task, MPI_Request* request) {
  auto pending = std::make_unique<Pending>();
  PMPI_Grequest_start(query, release, cancel, pending.get(), &pending->request);
  const MPI_Request made = pending->request;
  Outcome begun;
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back(pending.get());
    begun = begin(task, &pending->operation);
    if (begun.status != ECH_OK) pending_.pop_back();
  }
  Pending* const kept = pending.release();  // MPI gives it back in release()
  if (begun.status == ECH_OK) {
    ++going;
    *request = made;
    return begun;
  }
  PMPI_Grequest_complete(kept->request);
  MPI_Request unused = made;
  PMPI_Wait(&unused, MPI_STATUS_IGNORE);
  return begun;
}

int Channel::advance() {
  std::list<Pending*> ended;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return 0;  // another thread does it
    for (auto it = pending_.begin(); it != pending_.end();) {
      Pending& pending = **it;
      const auto here = it++;
      if (poll(pending.operation, pending.outcome)) ended.splice(ended.end(), pending_, here);
    }
    if (retired_) say_farewell();
  }
  const int count = static_cast<int>(ended.size());
  going -= count;
  for (const Pending* pending : ended) PMPI_Grequest_complete(pending->request);
  return count;
}

int Channel::under_way() { return going; }

void Channel::retire() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(retired_, true)) return;
    ++going;
  }
  advance();
}

bool Channel::is_over() {
  const std::lock_guard lock(mutex_);
  return over_;
}

// A barrier that has ended here says that every rank has come to it, and so that none has anything
// else under way: whoever goes now disturbs nobody.
void Channel::say_farewell() {
  if (over_ || !pending_.empty()) return;
  Outcome outcome;
  if (farewell_ == nullptr) {
    outcome = begin({}, &farewell_);
    over_ = outcome.status != ECH_OK;
  } else {
    over_ = poll(farewell_, outcome);
  }
  if (over_) --going;
}

int Channel::query(void* pending, MPI_Status* status) {
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return error_code(static_cast<const Pending*>(pending)->outcome);
}

int Channel::release(void* pending) {
  delete static_cast<Pending*>(pending);
  return MPI_SUCCESS;
}

int Channel::cancel(void*, int) { return MPI_SUCCESS; }  // collectives cannot be cancelled

}  // namespace echelon::dropin
