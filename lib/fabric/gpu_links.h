// SPDX-License-Identifier: Apache-2.0
// What joins the GPUs of ranks, from the fabric as far as it tells, else from a guess that says so.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/fabric/place.h"

namespace echelon {

// Results that a GPU adds, bytes/s: a guess, of a V100, whose memory has 900 GB/s, and of which a
// sum of two reads and writes three bytes for each.
inline constexpr double kGpuReduceSpeed = 300e9;

// By which each of these GPUs (indices in host.gpus; -1: unknown) reaches the others: NVLink where
// it joins all of them, directly or over others of them, else PCIe. Nothing where that is unknown.
std::optional<Link> link_of_gpus(const Host& host, std::span<const int> gpus);

// Between each of these GPUs and the memory of its host, while all of them are used at once: PCI
// bridges that are above several are shared. A GPU may be there several times. Nothing where
// unknown.
std::optional<Link> link_to_memory(const Host& host, std::span<const int> gpus);

// How the ranks' GPUs are used, alike on all ranks.
struct GpuUse {
  bool native = false;        // NCCL joins those of a host
  bool staged = false;        // messages are copied between them and their hosts
  bool domains = false;       // and those of hosts that NVLink joins
  bool joint = false;         // NCCL can be asked to join all of them
  std::string no_joint = {};  // why not
  std::string absence = {};   // why they are not used at all; "": they are
};

// The ranks whose GPUs one group of NCCL joins: those of a host, or, with `use.domains`, of all
// hosts of an NVLink domain. Ordered by their first rank. A host belongs to a domain when all of
// its ranks' GPUs do; a domain ends where a rack ends.
std::vector<Group> gpu_groups(const Layout& layout, const Fabric& fabric,
                              std::span<const RankPlace> places, const GpuUse& use);

// The layout as it is for buffers on the ranks' GPUs. Where a domain has several hosts, the tier
// `domain` is in the place of socket and host.
Layout layout_of_gpus(Layout layout, const Fabric& fabric, std::span<const RankPlace> places,
                      const GpuUse& use);

}  // namespace echelon
