// SPDX-License-Identifier: Apache-2.0
#include "tests/standin/standin_nccl_group.h"

#include <utility>

#include "tests/standin/standin_cuda.h"

namespace echelon::standin {

Group& Group::of_thread() {
  thread_local Group group;
  return group;
}

void Group::add(const CommPtr& comm, CudaStream stream, const Operation& operation) {
  for (Piece& piece : pieces_) {
    if (piece.comm != comm || piece.stream != stream) continue;
    piece.operations.push_back(operation);
    return;
  }
  pieces_.push_back({comm, stream, {operation}});
}

void Group::fail(NcclResult result) {
  if (failure_ == kNcclSuccess) failure_ = result;
}

NcclResult Group::end() {
  if (depth_ == 0) return kNcclInvalidUsage;
  if (--depth_ > 0) return kNcclSuccess;
  const auto pieces = std::exchange(pieces_, {});
  auto makings = std::exchange(makings_, {});
  if (const NcclResult failed = std::exchange(failure_, kNcclSuccess); failed != kNcclSuccess)
    return failed;
  NcclResult result = make_all(std::move(makings));
  for (const Piece& piece : pieces) {
    const NcclResult one = enqueue(piece);
    if (result == kNcclSuccess || (result == kNcclInProgress && one != kNcclSuccess)) result = one;
  }
  return result;
}

// All at once: a thread may be several ranks.
NcclResult Group::make_all(std::vector<Making> makings) {
  NcclResult result = kNcclSuccess;
  std::vector<MarkPtr> marks;
  for (Making& making : makings) marks.push_back(making.comm->start(std::move(making.job)));
  for (std::size_t i = 0; i < makings.size(); ++i) {
    if (makings[i].comm->blocking) {
      marks[i]->wait();
      if (result == kNcclSuccess) result = makings[i].comm->result();
    } else if (result == kNcclSuccess) {
      result = kNcclInProgress;
    }
  }
  return result;
}

// Nonblocking: nothing is in the stream yet when the call returns.
NcclResult Group::enqueue(const Piece& piece) {
  struct Work {
    Piece piece;
    std::uint64_t ticket;
  };
  const auto put = [piece, ticket = piece.comm->ticket()] {
    const auto run = [](void* data, bool broken) {
      const std::unique_ptr<Work> work(static_cast<Work*>(data));
      if (broken) work->piece.operations.clear();
      work->piece.comm->run(work->ticket, work->piece.operations);
    };
    auto work = std::make_unique<Work>(Work{piece, ticket});
    const CudaResult result = standin_enqueue(piece.stream, run, work.get());
    if (result == kCudaSuccess) static_cast<void>(work.release());
    return result == kCudaSuccess ? kNcclSuccess : kNcclUnhandledCudaError;
  };
  if (piece.comm->blocking) return put();
  piece.comm->start([put] {
    if (put() != kNcclSuccess) give_up("a nonblocking communicator was given a bad stream");
  });
  return kNcclInProgress;
}

}  // namespace echelon::standin
