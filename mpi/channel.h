// SPDX-License-Identifier: Apache-2.0
// Echelon's communicator behind one of MPI's, and what is under way on it.
//
// Thread safety: any thread may call anything; MPI's rules see to it that two threads do not start
// operations on one communicator at once. No MPI function is called under a channel's lock.
#pragma once

#include <echelon/echelon.h>
#include <mpi.h>

#include <list>
#include <mutex>
#include <string>

namespace echelon::dropin {

// A collective in Echelon's words.
struct Task {
  ech_collective collective = ECH_BARRIER;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ech_dtype dtype = ECH_UINT8;
  ech_op op = ECH_SUM;
  int root = 0;
};

struct Outcome {
  ech_status status = ECH_OK;
  std::string text;  // why it is not ECH_OK
};

class Channel {
 public:
  explicit Channel(ech_comm* comm);
  ~Channel();  // local; tells the other ranks, if any is left, that this one goes
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Blocks until it has ended, and lets MPI progress meanwhile.
  Outcome run(const Task& task);

  // `request` is one of MPI's, which ends when the operation has.
  Outcome start(const Task& task, MPI_Request* request);

  // Moves what is under way without blocking. How many requests have ended.
  int advance();

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Operations and farewells that have not ended, on all channels of the process.
  static int under_way();

  // No operation will be started any more: when the last one has ended, all ranks are told.
  void retire();
  // Every rank has retired it, or it has failed: nobody needs it any more.
  bool is_over();

 private:
  struct Pending {
    ech_request* operation = nullptr;
    MPI_Request request = MPI_REQUEST_NULL;
    Outcome outcome;
  };

  Outcome begin(const Task& task, ech_request** operation);
  bool poll(ech_request*& operation, Outcome& outcome);
  void say_farewell();
  static int query(void* pending, MPI_Status* status);
  static int release(void* pending);
  static int cancel(void* pending, int complete);

  std::mutex mutex_;  // over all that follows, and over driving `comm_`
  ech_comm* const comm_;
  int rank_ = 0, size_ = 1;
  std::list<Pending*> pending_;
  bool retired_ = false, over_ = false;
  ech_request* farewell_ = nullptr;  // a barrier behind everything else
};

}  // namespace echelon::dropin
