// SPDX-License-Identifier: Apache-2.0
// The part of making a communicator that has to do with GPUs: who has brought one, and what is
// opened for it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/device_engine.h"
#include "lib/fabric/place.h"
#include "lib/introduction.h"
#include "lib/options.h"
#include "transports/cuda/cuda_memory.h"

namespace echelon {

// The device that is current on the calling thread.
GpuOffer offer_gpu(const Options& options);

// What follows from the offers of all ranks, on all alike.
struct GpuTerms {
  std::string absence;  // why there are no collectives on GPUs; "": there are
  bool native = false;  // NCCL joins the GPUs of a host; else they exchange messages
};
GpuTerms gpu_terms(const std::vector<Introduction>& ranks, const Layout& layout,
                   const std::vector<std::string>& rank_names);

// Where the GPUs of the ranks are, as far as the fabric has them.
void place_gpus(const std::vector<Introduction>& ranks, const Fabric& fabric,
                std::vector<RankPlace>& places);

// What one rank opens before it knows where the others are.
class DeviceMedia {
 public:
  using OpenNetwork = std::function<std::unique_ptr<Medium>()>;  // null: needs no messages

  // Never throws: what went wrong is in addresses().
  DeviceMedia(const std::vector<int>& local, int self, const Options& options,
              const OpenNetwork& open_network) noexcept;

  // Puts what the others need to know into `mine`.
  void tell(MediaAddresses& mine) const;

  // Consumes the media. `all` by rank. Throws as the media do.
  DeviceParts connect(std::span<const MediaAddresses> all);

 private:
  void open(const Options& options, const OpenNetwork& open_network);

  const std::vector<int> local_;  // ranks of this host that NCCL joins; with one: nothing to join
  const int self_;
  std::string absence_;
  std::unique_ptr<DeviceContext> device_;
  std::unique_ptr<CudaMemory> memory_;
  std::unique_ptr<Medium> network_;
  bool straight_ = false;  // messages lie in the GPU's memory, and not in the host's on their way
  std::unique_ptr<GroupMedium> group_;
};

}  // namespace echelon
