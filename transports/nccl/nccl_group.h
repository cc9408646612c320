// SPDX-License-Identifier: Apache-2.0
// The GPUs of a group, by NCCL: one communicator, which every member calls in the same order. Or of
// two groups, one inside the other, whose calls have one order on every member: NCCL's
// communicators on one GPU need that, too.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "lib/base/log.h"
#include "lib/base/pipeline.h"
#include "transports/cuda/device.h"
#include "transports/group.h"
#include "transports/nccl/library.h"

namespace echelon {

// What is needed to make a group. `nccl` and `device` outlive it.
struct NcclGroupOptions {
  const NcclLibrary* nccl = nullptr;
  const DeviceContext* device = nullptr;
  int lanes = kPipelineDepth;
  bool registers = false;  // memory of ech_alloc; alike on all members
  Log log = {};            // of what NCCL refuses and is done without
};

// A group as one of its members sees it. `id` is what member 0 has from new_nccl_id().
struct NcclMembership {
  std::string id;
  int self = 0, size = 1;
};
std::string new_nccl_id(const NcclLibrary& nccl);  // throws ECH_ERR_SYSTEM

// Buffers are in the memory of the device. The calls of all lanes are made in the order of
// GroupWork::turn, which begins at 0 and leaves none out; GroupWork::members tells of which group
// they are. Each communicator is made at the first of its calls. `groups`: one or two, the smaller
// first. Errors: ECH_ERR_INVALID (an id that is none), ECH_ERR_SYSTEM (NCCL's), ECH_ERR_NO_MEMORY;
// of calls under way also ECH_ERR_PEER.
std::unique_ptr<GroupEngine> join_nccl(const NcclGroupOptions& options,
                                       std::span<const NcclMembership> groups);

// The same of one group, for those who exchange addresses. `first`: whether this rank will be
// member 0, whose address the others use.
std::unique_ptr<GroupMedium> make_nccl_group(const NcclGroupOptions& options, bool first);

}  // namespace echelon
