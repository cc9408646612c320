// SPDX-License-Identifier: Apache-2.0
#include "lib/device_media.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lib/base/pipeline.h"
#include "lib/fabric/loaders.h"
#include "transports/cuda/staged_transport.h"

namespace echelon {
namespace {

// The first NCCL that uses NVLink from host to host.
constexpr int kNcclOfDomains = 22100;

// NCCL joins no two ranks on one GPU, unless both say that it does.
std::string shared_gpu(const std::vector<Introduction>& ranks, const Layout& layout) {
  std::map<std::pair<int, std::string>, std::size_t> users;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto [at, is_new] = users.try_emplace({layout.host_of_rank[r], ranks[r].gpu.uuid}, r);
    if (!is_new && !(ranks[at->second].gpu.shares && ranks[r].gpu.shares))
      return fmt::format("ranks {} and {} share a GPU", at->second, r);
  }
  return "";
}

// Why NCCL cannot be used inside a host; "" when it can.
std::string no_nccl(const std::vector<Introduction>& ranks, const Layout& layout,
                    const std::vector<std::string>& rank_names) {
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (ranks[r].gpu.nccl == 0) return rank_names[r] + ": " + ranks[r].gpu.no_nccl;
  return shared_gpu(ranks, layout);
}

// NCCL of one version does not talk to another.
std::string two_versions(const std::vector<Introduction>& ranks,
                         const std::vector<std::string>& rank_names) {
  for (std::size_t r = 1; r < ranks.size(); ++r)
    if (ranks[r].gpu.nccl != ranks[0].gpu.nccl)
      return fmt::format("{} has NCCL {}, {} has {}", rank_names[0],
                         nccl_version_text(ranks[0].gpu.nccl), rank_names[r],
                         nccl_version_text(ranks[r].gpu.nccl));
  return "";
}

}  // namespace

GpuOffer offer_gpu(const Options& options) {
  const CudaDriver* cuda = cuda_driver();
  if (cuda == nullptr) return {"", cuda_absence()};
  const std::optional<CudaDevice> device = current_device(*cuda);
  if (!device) return {"", "no CUDA device was current on the thread that made the communicator"};
  if (kernel_image().empty())
    return {"", "this build has no GPU kernels: nvcc was not there when it was built"};
  CudaUuid uuid{};
  if (cuda->device_get_uuid(&uuid, *device) != kCudaSuccess)
    return {"", fmt::format("CUDA device {} does not tell its UUID", *device)};
  char pci[32] = "";
  if (cuda->device_get_pci_bus_id(pci, sizeof pci, *device) != kCudaSuccess) pci[0] = '\0';
  const NcclLibrary* nccl = nccl_library(options.nccl);
  return {std::string(uuid.bytes, uuid.bytes + sizeof uuid.bytes),
          "",
          nccl == nullptr ? 0 : nccl->version,
          nccl_absence(options.nccl),
          pci,
          nccl != nullptr && nccl_shares_gpus(*nccl)};
}

GpuUse use_of_gpus(const std::vector<Introduction>& ranks, const Layout& layout,
                   const std::vector<std::string>& rank_names) {
  GpuUse use;
  for (std::size_t r = 0; r < ranks.size() && use.absence.empty(); ++r)
    if (ranks[r].gpu.uuid.empty()) use.absence = rank_names[r] + ": " + ranks[r].gpu.absence;
  if (!use.absence.empty()) return use;
  use.no_joint = no_nccl(ranks, layout, rank_names);
  use.native = use.no_joint.empty();
  if (use.native) use.no_joint = two_versions(ranks, rank_names);
  use.joint = use.no_joint.empty();
  use.domains = use.joint && ranks[0].gpu.nccl >= kNcclOfDomains;
  return use;
}

void hear_of_gpus(std::span<const MediaAddresses> all, const std::vector<std::string>& rank_names,
                  GpuUse& use) {
  for (std::size_t r = 0; r < all.size() && use.absence.empty(); ++r)
    if (!all[r].gpu_absence.empty())
      use.absence = rank_names[r] + ": " + printable(all[r].gpu_absence);
  use.staged = std::ranges::any_of(all, &MediaAddresses::gpu_staged);
  if (!use.joint || !all[0].gpu_joint.empty()) return;
  use.joint = false;
  use.no_joint = "NCCL gave " + rank_names[0] + " no id for it";
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

GpuGroups groups_of(int self, const std::vector<Group>& near, const GpuUse& use) {
  GpuGroups groups{{self}, 0};
  int size = 0;
  for (const Group& group : near) {
    size += group.size();
    if (use.native && group.index_of(self) >= 0) groups.near = group.ranks();
  }
  if (use.joint && static_cast<int>(groups.near.size()) < size) groups.all = size;
  return groups;
}

DeviceMedia::DeviceMedia(GpuGroups groups, int self, const Options& options,
                         const OpenNetwork& open_network) noexcept
    : groups_(std::move(groups)), self_(self), registers_(options.nccl_register) {
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
      *device_, kPipelineDepth,
      straight_ ? CudaMemory::Arrival::kDevice : CudaMemory::Arrival::kPinned);
  if (groups_.near.size() > 1 || groups_.all > 0) open_groups(options);
}

// Without an id of theirs, calls that join all are none of the possible ways.
void DeviceMedia::open_groups(const Options& options) {
  nccl_ = nccl_library(options.nccl);
  if (nccl_ == nullptr) throw Error(ECH_ERR_UNSUPPORTED, nccl_absence(options.nccl));
  if (groups_.near.size() > 1 && groups_.near.front() == self_) near_id_ = new_nccl_id(*nccl_);
  if (groups_.all == 0 || self_ != 0) return;
  try {
    joint_id_ = new_nccl_id(*nccl_);
  } catch (const Error&) {
    joint_id_.clear();
  }
}

void DeviceMedia::tell(MediaAddresses& mine) const {
  mine.gpu_absence = absence_;
  mine.gpu_staged = network_ && !straight_;
  if (network_) mine.gpu_network = network_->address();
  mine.gpu_group = near_id_;
  mine.gpu_joint = joint_id_;
}

std::vector<NcclMembership> DeviceMedia::memberships(std::span<const MediaAddresses> all) const {
  std::vector<NcclMembership> groups;
  const int near = static_cast<int>(groups_.near.size());
  const auto index = std::ranges::find(groups_.near, self_) - groups_.near.begin();
  if (near > 1)
    groups.push_back({all[groups_.near.front()].gpu_group, static_cast<int>(index), near});
  if (groups_.all > 0 && !all[0].gpu_joint.empty())
    groups.push_back({all[0].gpu_joint, self_, groups_.all});
  return groups;
}

DeviceParts DeviceMedia::connect(std::span<const MediaAddresses> all, const Log& log) {
  DeviceParts parts;
  if (network_) {
    std::vector<std::string> addresses;
    for (const MediaAddresses& theirs : all) addresses.push_back(theirs.gpu_network);
    parts.engine.transport = network_->connect(self_, addresses);
    if (!straight_)
      parts.engine.transport =
          std::make_unique<StagedTransport>(std::move(parts.engine.transport), *memory_, *device_);
  }
  if (const auto groups = memberships(all); !groups.empty()) {
    parts.engine.group = join_nccl({nccl_, device_.get(), kPipelineDepth, registers_, log}, groups);
    parts.engine.group_ranks = Group(groups_.near);
  }
  parts.engine.memory = std::move(memory_);
  parts.device = std::move(device_);
  return parts;
}

}  // namespace echelon
