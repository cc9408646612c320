// SPDX-License-Identifier: Apache-2.0
// The checks of one host: pure functions of what is known of it. docs/doctor.md says what each
// looks for.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/view.h"

namespace echelon::doctor {

struct Check {
  std::string_view name;
  Finding (*judge)(const View& view);
};

// All of them, in the order in which they are shown.
std::span<const Check> checks();

// Everything that is known of the host. It gets no name.
Report examine(const View& view);

// ---- the checks, by what they look at

Finding check_echelon(const View& view);  // checks_software.cc
Finding check_settings(const View& view);
Finding check_hwloc(const View& view);
Finding check_cuda(const View& view);
Finding check_nccl(const View& view);
Finding check_nvml(const View& view);

Finding check_kernel(const View& view);  // checks_system.cc
Finding check_cpus(const View& view);
Finding check_governor(const View& view);
Finding check_descriptors(const View& view);
Finding check_locked_memory(const View& view);

Finding check_memfd(const View& view);  // checks_memory.cc
Finding check_proc_fd(const View& view);
Finding check_vm_readv(const View& view);
Finding check_dev_shm(const View& view);

Finding check_loopback(const View& view);  // checks_network.cc
Finding check_fabric(const View& view);
Finding check_nics(const View& view);
Finding check_nic_balance(const View& view);
Finding check_congestion(const View& view);
Finding check_ucx(const View& view);
Finding check_transports(const View& view);

// ---- facts that several need

// "2.18.3"; "" without NCCL.
std::string nccl_version_text(const View& view);
// The version of the NVIDIA driver, "" without one.
std::string cuda_driver(const View& view);
// How many CPUs' worth of time the control groups grant; nothing: no limit.
std::optional<double> cpu_quota(const View& view);
// What each rank would use.
std::vector<NicFact> used_nics(const View& view);
std::string speed_text(double bytes_per_second);  // "10 Gbit/s"

}  // namespace echelon::doctor
