// SPDX-License-Identifier: Apache-2.0
// Memory that callers have from ech_alloc, made known to NCCL, which then need not copy what it
// sends from there or receives into it.
//
// Thread safety: refresh() and know() by one thread at a time, like everything that uses the
// communicators; memory may be freed by any. Who uses a communicator holds mutex() meanwhile.
// Invariant: what is registered has not been freed.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transports/cuda/device.h"
#include "transports/cuda/device_alloc.h"
#include "transports/nccl/library.h"

namespace echelon {

class NcclRegistrations {
 public:
  // Both outlive this. Does nothing where NCCL is older than 2.19.
  NcclRegistrations(const NcclLibrary& nccl, const DeviceContext& device);
  NcclRegistrations(const NcclRegistrations&) = delete;

  std::mutex& mutex() { return mutex_; }

  // Takes note of what has been allocated since; not while mutex() is held.
  void refresh();

  // Registers what `buffer` lies in, once, if it is in a block of the last refresh. When NCCL
  // refuses, that is a complaint, and the memory is used as any other. While mutex() is held.
  void know(NcclComm comm, const void* buffer);

  // Lines to log, since the last call. Not while mutex() is held: who is told may wait for a thread
  // that frees memory.
  std::vector<std::string> take_complaints() { return std::exchange(complaints_, {}); }

  // Before `comm` is aborted, which ends its registrations: calls that use them may still be under
  // way. While mutex() is held.
  void forget(NcclComm comm) noexcept;

 private:
  using Key = std::pair<std::uint64_t, NcclComm>;  // number of the block

  void add(NcclComm comm, const DeviceBlock& block, void*& handle);
  void freed(std::uint64_t number) noexcept;
  void remove(NcclComm comm, void* handle) noexcept;
  bool at_rest(NcclComm comm) const noexcept;
  void await(NcclComm comm) noexcept;

  const NcclLibrary& nccl_;
  const DeviceContext& device_;
  std::uint64_t seen_ = 0;           // device_blocks_changes() at the last refresh
  std::vector<DeviceBlock> blocks_;  // by address
  std::vector<std::string> complaints_;
  std::mutex mutex_;
  std::map<Key, void*> known_;   // NCCL's handle; null: it has refused
  std::set<NcclComm> too_long_;  // for what it was told last there was no more patience
  const DeviceFreeWatch watch_;
};

}  // namespace echelon
