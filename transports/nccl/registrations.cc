// SPDX-License-Identifier: Apache-2.0
#include "transports/nccl/registrations.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace echelon {
namespace {

// For what NCCL was told last before memory is freed, once for each communicator: connecting to a
// rank that is dead has no end, and others that allocate, free or make progress wait as well. Then
// the registration ends all the same. One that outlived its memory would be used for whatever is
// allocated there next.
constexpr std::chrono::seconds kPatience{1};

}  // namespace

NcclRegistrations::NcclRegistrations(const NcclLibrary& nccl, const DeviceContext& device)
    : nccl_(nccl), device_(device), watch_([this](std::uint64_t number) { freed(number); }) {}

void NcclRegistrations::refresh() {
  if (nccl_.comm_register == nullptr || nccl_.comm_deregister == nullptr) return;
  const std::uint64_t changes = device_blocks_changes();
  if (changes == seen_) return;
  blocks_ = device_blocks();
  seen_ = changes;
}

void NcclRegistrations::know(NcclComm comm, const void* buffer) {
  const auto* const at = static_cast<const std::byte*>(buffer);
  const auto after = std::ranges::upper_bound(blocks_, at, {}, &DeviceBlock::begin);
  if (after == blocks_.begin()) return;
  const DeviceBlock& block = *std::prev(after);
  if (at >= block.begin + block.bytes) return;
  const auto [entry, is_new] = known_.try_emplace({block.number, comm}, nullptr);
  if (is_new) add(comm, block, entry->second);
}

// A communicator that does not block may still be at it when the call returns; whoever uses it asks
// whether it is ready.
void NcclRegistrations::add(NcclComm comm, const DeviceBlock& block, void*& handle) {
  const DeviceScope scope(device_);
  const NcclResult result = nccl_.comm_register(comm, block.begin, block.bytes, &handle);
  if (result == kNcclSuccess || result == kNcclInProgress) return;
  handle = nullptr;
  complaints_.push_back(fmt::format("memory of ech_alloc is used without NCCL knowing it: {}",
                                    nccl_error(nccl_, result, "ncclCommRegister", comm).what()));
}

void NcclRegistrations::freed(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto at = known_.lower_bound({number, nullptr});
       at != known_.end() && at->first.first == number; at = known_.erase(at))
    remove(at->first.second, at->second);
}

void NcclRegistrations::forget(NcclComm comm) noexcept {
  std::erase_if(known_, [&](const auto& entry) { return entry.first.second == comm; });
  too_long_.erase(comm);
}

bool NcclRegistrations::at_rest(NcclComm comm) const noexcept {
  NcclResult state = kNcclSuccess;
  return nccl_.comm_get_async_error(comm, &state) != kNcclSuccess || state != kNcclInProgress;
}

// A communicator that does not block takes up a call in a thread of NCCL's own, which looks at the
// registrations, too.
void NcclRegistrations::await(NcclComm comm) noexcept {
  if (too_long_.contains(comm)) return;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!at_rest(comm) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (!at_rest(comm)) too_long_.insert(comm);
}

// NCCL's opinion of it changes nothing: the memory is about to end.
void NcclRegistrations::remove(NcclComm comm, void* handle) noexcept {
  if (handle == nullptr) return;
  await(comm);
  CudaContext context = nullptr;
  if (device_.cuda().ctx_push_current(device_.context()) != kCudaSuccess) return;
  nccl_.comm_deregister(comm, handle);
  device_.cuda().ctx_pop_current(&context);
}

}  // namespace echelon
