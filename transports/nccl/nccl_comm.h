// SPDX-License-Identifier: Apache-2.0
// A nonblocking NCCL communicator: what it was told goes on while others run.
//
// Thread safety: one thread at a time.
#pragma once

#include "transports/cuda/device.h"
#include "transports/nccl/library.h"

namespace echelon {

class NcclCommunicator {
 public:
  // Both outlive this. Collective over `size` ranks that know `id`; goes on in ready().
  NcclCommunicator(const NcclLibrary& nccl, const DeviceContext& device) noexcept
      : nccl_(nccl), device_(device) {}
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;

  void start(const NcclUniqueId& id, int rank, int size);
  bool started() const { return comm_ != nullptr; }

  // Whether what was called last has been taken up. Throws when that failed, and what failed since.
  bool ready();

  // Calls between begin() and end() are one piece of work. All require ready().
  void begin() { check(nccl_.group_start(), "ncclGroupStart"); }
  void end() { check(nccl_.group_end(), "ncclGroupEnd"); }
  NcclComm get() const { return comm_; }

  // ncclInProgress counts as success: ready() tells.
  void check(NcclResult result, const char* call) const;

  // Ends what is under way, here only. The communicator cannot be used again.
  void abort() noexcept;

 private:
  const NcclLibrary& nccl_;
  const DeviceContext& device_;
  NcclComm comm_ = nullptr;
};

}  // namespace echelon
