// SPDX-License-Identifier: Apache-2.0
#include "transports/nccl/nccl_comm.h"

namespace echelon {

NcclCommunicator::~NcclCommunicator() { abort(); }

void NcclCommunicator::start(const NcclUniqueId& id, int rank, int size) {
  NcclConfig config;
  config.blocking = 0;
  const DeviceScope scope(device_);
  check(nccl_.comm_init_rank_config(&comm_, size, id, rank, &config), "ncclCommInitRankConfig");
}

bool NcclCommunicator::ready() {
  NcclResult state = kNcclSuccess;
  check(nccl_.comm_get_async_error(comm_, &state), "ncclCommGetAsyncError");
  check(state, "NCCL");
  return state != kNcclInProgress;
}

void NcclCommunicator::check(NcclResult result, const char* call) const {
  if (result != kNcclSuccess && result != kNcclInProgress)
    throw nccl_error(nccl_, result, call, comm_);
}

// Also how it ends without a failure: nothing is under way then, and destroying it would wait for
// the others.
void NcclCommunicator::abort() noexcept {
  if (comm_ == nullptr) return;
  nccl_.comm_abort(comm_);
  comm_ = nullptr;
}

}  // namespace echelon
