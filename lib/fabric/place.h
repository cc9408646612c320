// SPDX-License-Identifier: Apache-2.0
// Ranks on machines: from what each rank knows of its host to one Fabric, its Layout, and the NICs
// of every rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/fabric/layout.h"

namespace echelon {

struct RankPlace {
  int host = 0;              // index in Fabric::hosts
  CpuSet cpus;               // the rank may run on; empty: anywhere
  int package = -1;          // index; -1: taken from cpus
  int gpu = -1;              // index in Host::gpus, -1: none
  std::string machine = {};  // whose CPUs these are; "": the host's own
};

struct Merged {
  Fabric fabric;                  // every host once, ordered by its first rank
  std::vector<int> host_of_rank;  // index in fabric.hosts
};

// Ranks with the same Host::id share a host; the first one's description is kept.
Merged merge(std::span<const Host> host_of_each_rank);

// Throws ECH_ERR_INVALID when a place names a host that does not exist.
Layout make_layout(const Fabric& fabric, std::span<const RankPlace> places);

// CPUs of a machine for each rank there, on the machine where they are fewest; 1 where there are
// more, or where that is not known.
double cpus_per_rank(std::span<const RankPlace> places);

// What the fabric file states of a tier's links goes before everything else; what was measured does
// not count here.
void say_of_tier(const Fabric& fabric, TierKind kind, Link& link);

// `count` ranks in host order, Host::ranks (else its GPUs, else 1) on each, spread evenly over its
// packages. 0: as many as fit. Throws ECH_ERR_INVALID when they do not fit.
std::vector<RankPlace> spread_ranks(const Fabric& fabric, int count);

// NICs of a rank (indices in its host's nics), the one to use first at the front. Nearest first;
// NICs equally near are dealt out over the ranks that share them; a NIC that would stay idle is
// given to some rank although it is far.
std::vector<int> nics_of_rank(const Fabric& fabric, std::span<const RankPlace> places, int rank);

// Names as in UCX_NET_DEVICES: "mlx5_0:1", "ib0".
std::vector<std::string> ucx_devices(const Host& host, std::span<const int> nics);

}  // namespace echelon
