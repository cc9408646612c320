// SPDX-License-Identifier: Apache-2.0
// What the ranks tell each other while a communicator is made, apart from the hosts. Everything
// that decodes throws ECH_ERR_INVALID for bytes that no rank sends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/bootstrap/address.h"
#include "lib/fabric/cpu_set.h"

namespace echelon {

// The GPU that a rank has brought, if it has.
struct GpuOffer {
  std::string uuid;          // "": none
  std::string absence;       // why
  int nccl = 0;              // NCCL's version there; 0: it cannot be used
  std::string no_nccl = {};  // why
  std::string pci = {};      // address; "": not told
  bool shares = false;       // NCCL may join it with another rank on the same one
};

// The first message of every rank.
struct Introduction {
  std::string host_id, host_name;
  CpuSet cpus;
  std::string slurm_address, slurm_pattern;
  std::string machine;   // whose CPUs these are
  std::string settings;  // what must be alike
  std::uint32_t pid = 0;
  GpuOffer gpu;
  std::optional<Address> standby;  // where it listens for survivors, unless they know already
};

std::string to_wire(const Introduction& introduction);
Introduction introduction_from_wire(std::string_view bytes);

// Where its media can be reached; empty for those that it has not opened.
struct MediaAddresses {
  std::string network, shared;
  std::string gpu_network, gpu_group;  // for the memory of its GPU
  std::string gpu_absence;             // why it cannot use that after all
  bool gpu_staged = false;             // messages are copied from it and to it
  std::string gpu_joint = {};          // of all ranks' GPUs, by the first of them
};

std::string to_wire(const MediaAddresses& addresses);
MediaAddresses media_addresses_from_wire(std::string_view bytes);

// The files that rank 0 has read for all.
struct SharedFiles {
  std::string fabric_path, tuning_path;
  // Of each "+" and the text, "-" and why there is none, or "" where none is asked for.
  std::string fabric, tuning;
};

std::string to_wire(const SharedFiles& files);
SharedFiles shared_files_from_wire(std::string_view bytes);

// What a rank has measured of a tier's links.
struct MeasuredLink {
  double latency = 0;           // s
  double bytes_per_second = 0;  // one direction
};

std::string to_wire(const MeasuredLink& link);
MeasuredLink measured_link_from_wire(std::string_view bytes);

}  // namespace echelon
