// SPDX-License-Identifier: Apache-2.0
#include "mpi/join.h"

#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <system_error>

#include "mpi/environment.h"
#include "mpi/failure.h"
#include "mpi/lookup.h"
#include "mpi/progress.h"

namespace echelon::dropin {
namespace {

constexpr double kCreation = 60;                        // s
constexpr std::chrono::microseconds kBetweenTurns{50};  // of MPI, while a communicator is made

// A rank that is stopped, by a debugger for example, is waited for, as MPI does; who dies is
// found by MPI's launcher, too. Before the program begins, since the environment is read by all.
[[gnu::constructor]] void be_patient() {
  if (!is_set("ECHELON_HEARTBEAT")) setenv("ECHELON_HEARTBEAT", "1e6", 1);
}

struct Seat {
  MPI_Comm comm;
  int rank, size;
};

// In this process a communicator could not be made: no other is tried.
std::atomic<bool> given_up{false};

void warn(const std::string& why) {
  static std::atomic_flag warned;
  if (!warned.test_and_set()) say("MPI does all collectives itself: " + why);
}

// "" or why this process cannot take part.
std::string obstacle(bool able) {
  if (given_up) return "an earlier communicator could not be made";
  if (!able) return "this MPI library lets nobody take part in its progress";
  // Open MPI's word for that; not all have it.
  const auto takes_cuda = look_up<int()>("MPIX_Query_cuda_support");
  if (takes_cuda != nullptr && takes_cuda() != 0)
    return "this MPI library takes CUDA memory, and which rank gives it is not known to the others";
  return "";
}

// Why a rank cannot take part; empty when it can.
struct Reason {
  std::string text;
  bool of_another = false;  // that another rank has left or does not come, which knows why
};

// True when no rank has a reason. Else one tells its own: the lowest of those that know best.
bool all_agree(const Seat& seat, const Reason& why) {
  const int none = 2 * seat.size;
  const int mine = why.text.empty() ? none : seat.rank + (why.of_another ? seat.size : 0);
  int first = -1;
  if (PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, seat.comm) != MPI_SUCCESS) return false;
  if (first == mine && mine != none && !given_up) warn(why.text);  // else it was told then
  return first == none;
}

struct Offer {
  ech_unique_id id;
  int good;
};

// Rank 0's, to all.
Reason exchange_id(const Seat& seat, ech_unique_id& id) {
  Offer offer{};
  Reason why;
  if (seat.rank == 0) {
    offer.good = ech_get_unique_id(&offer.id, nullptr) == ECH_OK;
    if (offer.good == 0) why.text = ech_last_error();
  }
  const int error = PMPI_Bcast(&offer, sizeof offer, MPI_BYTE, 0, seat.comm);
  if (error != MPI_SUCCESS) return {"MPI_Bcast failed"};
  id = offer.id;
  if (offer.good == 0 && seat.rank != 0) why = {"rank 0 could not listen for the others", true};
  return why;
}

// A thread that is started meanwhile runs no signal handlers of the program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

bool is_of_another(ech_status status) {
  return status == ECH_ERR_PEER || status == ECH_ERR_ABORTED || status == ECH_ERR_TIMEOUT;
}

ech_comm* create(const Seat& seat, const ech_unique_id& id, Reason& why) {
  ech_comm_options options = ECH_COMM_OPTIONS_INIT;
  options.unique_id = &id;
  options.rank = seat.rank;
  options.size = seat.size;
  if (!is_set("ECHELON_TIMEOUT")) options.timeout = kCreation;
  // In an MPI program it is no news that a rank comes late.
  if (!is_set("ECHELON_LOG")) options.log_level = ECH_LOG_ERROR;
  ech_comm* comm = nullptr;
  const ech_status status = ech_comm_create(&comm, &options);
  if (status != ECH_OK) why = {ech_last_error(), is_of_another(status)};
  return comm;
}

// By a thread that calls nothing of MPI, so that this one lets MPI move: what the others need
// before they can come may still lie here.
ech_comm* create_beside_mpi(const Seat& seat, const ech_unique_id& id, Reason& why) {
  std::future<ech_comm*> made;
  try {
    const SignalsBlocked blocked;
    made = std::async(std::launch::async, [&] { return create(seat, id, why); });
  } catch (const std::system_error& error) {
    why.text = std::string("cannot start a thread: ") + error.what();
    return nullptr;
  }
  while (made.wait_for(kBetweenTurns) != std::future_status::ready) progress_mpi();
  return made.get();
}

void drop(ech_comm* comm) {
  if (comm == nullptr) return;
  ech_comm_abort(comm);
  ech_comm_destroy(comm);
}

}  // namespace

std::unique_ptr<Channel> join_ranks(MPI_Comm comm, bool able) {
  int between = 0;
  PMPI_Comm_test_inter(comm, &between);
  Seat seat{comm, 0, 1};
  PMPI_Comm_rank(comm, &seat.rank);
  PMPI_Comm_size(comm, &seat.size);
  if (between != 0 || seat.size == 1) return nullptr;
  if (!all_agree(seat, {obstacle(able)})) return nullptr;
  ech_unique_id id;
  Reason why = exchange_id(seat, id);
  ech_comm* const made = why.text.empty() ? create_beside_mpi(seat, id, why) : nullptr;
  if (all_agree(seat, why)) return std::make_unique<Channel>(made);
  given_up = true;
  drop(made);
  return nullptr;
}

}  // namespace echelon::dropin
