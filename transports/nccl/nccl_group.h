// SPDX-License-Identifier: Apache-2.0
// The GPUs of a group, by NCCL: one communicator, which every member calls in the same order.
#pragma once

#include <memory>
#include <string>

#include "transports/cuda/device.h"
#include "transports/group.h"
#include "transports/nccl/library.h"

namespace echelon {

// What is needed to make a group. `nccl` and `device` outlive it.
struct NcclGroupOptions {
  const NcclLibrary* nccl = nullptr;
  const DeviceContext* device = nullptr;
  bool first = false;  // whether this rank will be member 0, whose address the others use
  int lanes = 8;
};

// Buffers are in the memory of the device. The calls of all lanes are made in the order of
// GroupWork::turn, which begins at 0 and leaves none out. The communicator is made at the first
// call. Errors: ECH_ERR_SYSTEM (NCCL's), ECH_ERR_NO_MEMORY.
std::unique_ptr<GroupMedium> make_nccl_group(const NcclGroupOptions& options);

}  // namespace echelon
