// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/checks.h"

#include "echelon/echelon.h"

namespace echelon::doctor {
namespace {

constexpr Check kChecks[] = {
    {"echelon", check_echelon},
    {"kernel", check_kernel},
    {"settings", check_settings},
    {"cpus", check_cpus},
    {"governor", check_governor},
    {"nofile", check_descriptors},
    {"memlock", check_locked_memory},
    {"memfd", check_memfd},
    {"proc-fd", check_proc_fd},
    {"vm-readv", check_vm_readv},
    {"dev-shm", check_dev_shm},
    {"loopback", check_loopback},
    {"hwloc", check_hwloc},
    {"fabric", check_fabric},
    {"nics", check_nics},
    {"nic-balance", check_nic_balance},
    {"congestion", check_congestion},
    {"ucx", check_ucx},
    {"transports", check_transports},
    {"cuda", check_cuda},
    {"nccl", check_nccl},
    {"nvml", check_nvml},
};

}  // namespace

std::span<const Check> checks() { return kChecks; }

Report examine(const View& view) {
  const Probes& p = view.probes;
  Report report;
  report.versions = {p.library,        p.kernel, p.ucx.loaded, p.hwloc, nccl_version_text(view),
                     cuda_driver(view)};
  report.nics = used_nics(view);
  for (const Check& check : checks()) {
    report.findings.push_back(check.judge(view));
    report.findings.back().check = check.name;
  }
  return report;
}

}  // namespace echelon::doctor
