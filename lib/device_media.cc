// SPDX-License-Identifier: Apache-2.0
#include "lib/device_media.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "transports/cuda/staged_transport.h"
#include "transports/nccl/nccl_group.h"

namespace echelon {
namespace {

constexpr int kLanes = 8;

// NCCL joins no two ranks on one GPU.
bool are_distinct(const std::vector<Introduction>& ranks, const std::vector<int>& local) {
  std::set<std::string> uuids;
  for (int rank : local) uuids.insert(ranks[rank].gpu.uuid);
  return uuids.size() == local.size();
}

}  // namespace

GpuOffer offer_gpu(const Options& options) {
  const CudaDriver* cuda = cuda_driver();
  if (cuda == nullptr) return {"", cuda_absence(), false};
  const std::optional<CudaDevice> device = current_device(*cuda);
  if (!device)
    return {"", "no CUDA device was current on the thread that made the communicator", false};
  if (kernel_image().empty())
    return {"", "this build has no GPU kernels: nvcc was not there when it was built", false};
  CudaUuid uuid{};
  if (cuda->device_get_uuid(&uuid, *device) != kCudaSuccess)
    return {"", fmt::format("CUDA device {} does not tell its UUID", *device), false};
  char pci[32] = "";
  if (cuda->device_get_pci_bus_id(pci, sizeof pci, *device) != kCudaSuccess) pci[0] = '\0';
  return {std::string(uuid.bytes, uuid.bytes + sizeof uuid.bytes), "",
          nccl_library(options.nccl) != nullptr, pci};
}

GpuTerms gpu_terms(const std::vector<Introduction>& ranks, const Layout& layout,
                   const std::vector<std::string>& rank_names) {
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r].gpu.uuid.empty()) return {rank_names[r] + ": " + ranks[r].gpu.absence, false};
  bool native = std::ranges::all_of(ranks, [](const Introduction& i) { return i.gpu.nccl; });
  for (int host = 0; host < layout.host_count(); ++host)
    native = native && are_distinct(ranks, layout.ranks_of_host(host));
  return {"", native};
}

void place_gpus(const std::vector<Introduction>& ranks, const Fabric& fabric,
                std::vector<RankPlace>& places) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::vector<Gpu>& gpus = fabric.hosts[places[r].host].gpus;
    const auto at = std::ranges::find(gpus, ranks[r].gpu.pci, &Gpu::pci);
    const bool known = !ranks[r].gpu.pci.empty() && at != gpus.end();
    places[r].gpu = known ? static_cast<int>(at - gpus.begin()) : -1;
  }
}

DeviceMedia::DeviceMedia(const std::vector<int>& local, int self, const Options& options,
                         const OpenNetwork& open_network) noexcept
    : local_(local), self_(self) {
  try {
    open(options, open_network);
  } catch (const std::exception& e) {
    absence_ = e.what();
  }
}

void DeviceMedia::open(const Options& options, const OpenNetwork& open_network) {
  const CudaDriver* cuda = cuda_driver();
  const std::optional<CudaDevice> ordinal = cuda != nullptr ? current_device(*cuda) : std::nullopt;
  if (!ordinal) throw Error(ECH_ERR_UNSUPPORTED, "its CUDA device is not current any more");
  device_ = std::make_unique<DeviceContext>(*cuda, *ordinal);
  if (open_network) network_ = open_network();
  straight_ = network_ && network_->reaches_gpus();
  memory_ = std::make_unique<CudaMemory>(
      *device_, kLanes, straight_ ? CudaMemory::Arrival::kDevice : CudaMemory::Arrival::kPinned);
  if (local_.size() < 2) return;
  const NcclLibrary* nccl = nccl_library(options.nccl);
  if (nccl == nullptr) throw Error(ECH_ERR_UNSUPPORTED, nccl_absence(options.nccl));
  group_ = make_nccl_group({nccl, device_.get(), local_.front() == self_, kLanes});
}

void DeviceMedia::tell(MediaAddresses& mine) const {
  mine.gpu_absence = absence_;
  mine.gpu_staged = network_ && !straight_;
  if (network_) mine.gpu_network = network_->address();
  if (group_) mine.gpu_group = group_->address();
}

DeviceParts DeviceMedia::connect(std::span<const MediaAddresses> all) {
  DeviceParts parts;
  if (network_) {
    std::vector<std::string> addresses;
    for (const MediaAddresses& theirs : all) addresses.push_back(theirs.gpu_network);
    parts.engine.transport = network_->connect(self_, addresses);
    if (!straight_)
      parts.engine.transport =
          std::make_unique<StagedTransport>(std::move(parts.engine.transport), *memory_, *device_);
  }
  if (group_) {
    std::vector<std::string> members;
    for (int rank : local_) members.push_back(all[rank].gpu_group);
    const auto index = std::ranges::find(local_, self_) - local_.begin();
    parts.engine.group = group_->connect(static_cast<int>(index), members);
    parts.engine.group_ranks = Group(local_);
  }
  parts.engine.memory = std::move(memory_);
  parts.device = std::move(device_);
  return parts;
}

}  // namespace echelon
