// SPDX-License-Identifier: Apache-2.0
// A communicator of the stand-in for libnccl.so.2. Rank 0 computes for all: the others send it
// their inputs and get back their results, operation by operation.
//
// As between GPUs of one host, a rank that has gone is not noticed: operations with it end when the
// communicator is aborted.
//
// Thread safety: all functions may be called by any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/standin/standin_cuda_stream.h"
#include "tests/standin/standin_faults.h"
#include "tests/standin/standin_nccl_link.h"
#include "tests/standin/standin_nccl_reduce.h"

namespace echelon::standin {

enum class Collective : int { kAllreduce, kReduceScatter, kAllgather, kBroadcast, kReduce, kSplit };

// What all ranks have to agree on.
struct Terms {
  Collective collective = Collective::kAllreduce;
  NcclType type = kNcclInt8;
  NcclOp op = kNcclSum;
  int root = 0;
  std::size_t count = 0;
  bool operator==(const Terms&) const = default;
};

struct Operation {
  Terms terms;
  const char* send = nullptr;  // where the CPU finds it
  char* recv = nullptr;
};

// Where a rank is in a communicator.
struct Seat {
  std::string name;  // of the communicator
  int rank = 0;
  int size = 1;
  bool operator==(const Seat&) const = default;
};

class Comm {
 public:
  Comm(Seat seat, bool blocking, CudaContext context, int device);

  const Seat seat;
  const bool blocking;
  const int device;

  void connect();  // finds the other ranks; may fail, which result() tells then

  NcclResult result() const;  // of what was last done in the background
  // In the background; until it has ended, result() is "in progress".
  MarkPtr start(std::function<void()> job);

  // Operations run in the order of their tickets on all ranks, whatever their streams.
  std::uint64_t ticket();
  void run(std::uint64_t ticket, const std::vector<Operation>& operations);

  void flush();  // waits for what has a ticket
  // Ends what runs, and what would; nothing touches buffers, or puts work into streams, when it
  // returns.
  void abort();
  void close();  // the thread in the background ends

  // The seat in a part, found by all ranks together; nullopt without a colour.
  NcclResult split(int color, int key, std::optional<Seat>& part);
  // The seat without some ranks, by all others.
  Seat shrink(const std::vector<int>& excluded);

 private:
  void perform(const Operation& operation);
  Buffer exchange(const Terms& terms, Buffer input);
  Buffer lead(const Terms& terms, Buffer input);
  void hang();
  void set_result(NcclResult result);

  const StreamPtr background_;
  std::atomic<bool> aborted_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Links> links_;  // none for a single rank
  NcclResult result_ = kNcclSuccess;
  int jobs_ = 0;          // in the background
  bool running_ = false;  // an operation
  std::uint64_t issued_ = 0, done_ = 0;
  int parts_ = 0;  // made of it
};
using CommPtr = std::shared_ptr<Comm>;

Faults& nccl_faults();

}  // namespace echelon::standin
