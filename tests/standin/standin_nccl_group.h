// SPDX-License-Identifier: Apache-2.0
// Calls between ncclGroupStart and ncclGroupEnd: they begin together, at the end.
#pragma once

#include <functional>
#include <vector>

#include "tests/standin/standin_nccl_comm.h"

namespace echelon::standin {

// A communicator that is being made.
struct Making {
  CommPtr comm;
  std::function<void()> job;
};

// Of this thread. A call outside a group is a group of its own.
class Group {
 public:
  static Group& of_thread();

  bool open() const { return depth_ > 0; }
  void start() { ++depth_; }
  void add(const CommPtr& comm, CudaStream stream, const Operation& operation);
  void add(Making making) { makings_.push_back(std::move(making)); }
  void fail(NcclResult result);  // the group will end with the first failure, and do nothing

  NcclResult end();

 private:
  // What runs as one in one stream.
  struct Piece {
    CommPtr comm;
    CudaStream stream = nullptr;
    std::vector<Operation> operations;
  };

  NcclResult make_all(std::vector<Making> makings);
  static NcclResult enqueue(const Piece& piece);

  int depth_ = 0;
  NcclResult failure_ = kNcclSuccess;
  std::vector<Piece> pieces_;
  std::vector<Making> makings_;
};

}  // namespace echelon::standin
