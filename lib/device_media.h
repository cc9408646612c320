// SPDX-License-Identifier: Apache-2.0
// The part of making a communicator that has to do with GPUs: who has brought one, and what is
// opened for it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/device_engine.h"
#include "lib/fabric/gpu_links.h"
#include "lib/fabric/place.h"
#include "lib/introduction.h"
#include "lib/options.h"
#include "transports/cuda/cuda_memory.h"
#include "transports/nccl/nccl_group.h"

namespace echelon {

// The device that is current on the calling thread.
GpuOffer offer_gpu(const Options& options);

// What follows from the offers of all ranks, on all alike.
GpuUse use_of_gpus(const std::vector<Introduction>& ranks, const Layout& layout,
                   const std::vector<std::string>& rank_names);

// And what from that which they have opened.
void hear_of_gpus(std::span<const MediaAddresses> all, const std::vector<std::string>& rank_names,
                  GpuUse& use);

// Where the GPUs of the ranks are, as far as the fabric has them.
void place_gpus(const std::vector<Introduction>& ranks, const Fabric& fabric,
                std::vector<RankPlace>& places);

// Ranks that NCCL joins.
struct GpuGroups {
  std::vector<int> near;  // those of this host, or domain; with one: nothing to join
  int all = 0;            // how many there are, when a call may join all of them; else 0
};

GpuGroups groups_of(int self, const std::vector<Group>& near, const GpuUse& use);

// What one rank opens before it knows where the others are.
class DeviceMedia {
 public:
  using OpenNetwork = std::function<std::unique_ptr<Medium>()>;  // null: needs no messages

  // Never throws: what went wrong is in addresses().
  DeviceMedia(GpuGroups groups, int self, const Options& options,
              const OpenNetwork& open_network) noexcept;

  // Puts what the others need to know into `mine`.
  void tell(MediaAddresses& mine) const;

  // Consumes the media. `all` by rank. Throws as the media do.
  DeviceParts connect(std::span<const MediaAddresses> all, const Log& log = {});

 private:
  void open(const Options& options, const OpenNetwork& open_network);
  void open_groups(const Options& options);
  std::vector<NcclMembership> memberships(std::span<const MediaAddresses> all) const;

  const GpuGroups groups_;
  const int self_;
  const bool registers_;  // memory of ech_alloc
  std::string absence_;
  std::unique_ptr<DeviceContext> device_;
  std::unique_ptr<CudaMemory> memory_;
  std::unique_ptr<Medium> network_;
  bool straight_ = false;  // messages lie in the GPU's memory, and not in the host's on their way
  const NcclLibrary* nccl_ = nullptr;  // null: nothing to join
  std::string near_id_, joint_id_;     // by which NCCL finds them, where this rank is their first
};

}  // namespace echelon
