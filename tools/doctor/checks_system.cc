// SPDX-License-Identifier: Apache-2.0
// Checks of the kernel, the processors and the limits of a process.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "lib/fabric/cpu_set.h"
#include "tools/doctor/checks.h"

namespace echelon::doctor {
namespace {

// Sealed memfds.
constexpr int kLeastMajor = 3, kLeastMinor = 17;

// What a rank holds by itself and for each rank of the job, at most: shared memory of its host, and
// at rank 0 a control connection. UCX wants others besides.
constexpr std::uint64_t kOwnDescriptors = 20, kDescriptorsPerRank = 2;
constexpr std::uint64_t kWishedDescriptors = 65536;

constexpr unsigned kCapIpcLock = 14;  // CAP_IPC_LOCK: no limit of locked memory applies

bool is_rdma(const Nic& nic) {
  return nic.kind == LinkKind::kInfiniband || nic.kind == LinkKind::kRoce ||
         !nic.rdma_device.empty();
}

bool may_lock_memory(const View& view) {
  const std::string status = view.text("/proc/self/status");
  const std::size_t at = status.find("CapEff:");
  unsigned long long capabilities = 0;
  if (at == std::string::npos) return false;
  if (std::sscanf(status.c_str() + at, "CapEff: %llx", &capabilities) != 1) return false;
  return (capabilities >> kCapIpcLock & 1) != 0;
}

std::string limit_text(std::uint64_t limit) {
  return limit == Limit::kUnlimited ? "unlimited" : fmt::format("{}", limit);
}

std::string memory_text(std::uint64_t limit) {
  if (limit == Limit::kUnlimited) return "unlimited";
  return fmt::format("{} KiB", limit >> 10);
}

std::uint64_t descriptors_for(std::uint64_t ranks, bool network) {
  const int others = static_cast<int>(std::clamp<std::uint64_t>(ranks, 1, 1 << 20)) - 1;
  return kOwnDescriptors + kDescriptorsPerRank * ranks +
         (network ? static_cast<std::uint64_t>(ucx_descriptors(others)) : 0);
}

// How many ranks a job over several hosts may have.
std::uint64_t ranks_for(std::uint64_t limit) {
  std::uint64_t least = 0, most = limit;
  while (least < most) {
    const std::uint64_t middle = most - (most - least) / 2;
    if (descriptors_for(middle, true) <= limit) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

// Whether the governor lets a busy core run at full speed at once. Drivers that choose for
// themselves call themselves "powersave" and have a preference.
bool is_fast(const View& view, const std::string& folder, const std::string& governor) {
  if (governor == "performance") return true;
  const std::string preference = view.text(folder + "/energy_performance_preference");
  return governor == "powersave" &&
         (preference == "performance" || preference == "balance_performance");
}

}  // namespace

Finding check_kernel(const View& view) {
  const std::string& release = view.probes.kernel;
  int major = 0, minor = 0;
  const bool known = std::sscanf(release.c_str(), "%d.%d", &major, &minor) == 2;
  const bool old = major < kLeastMajor || (major == kLeastMajor && minor < kLeastMinor);
  if (known && !old) return ok(release);
  return broken(fmt::format("\"{}\", older than {}.{}", release, kLeastMajor, kLeastMinor),
                "ranks of one host share memory by sealed memfds", "update the kernel");
}

Finding check_cpus(const View& view) {
  const int usable = view.probes.cpus;
  const auto online = CpuSet::parse(view.text("/sys/devices/system/cpu/online"));
  const int all = online ? std::max(online->count(), usable) : usable;
  std::string found = usable == all ? counted(static_cast<std::size_t>(usable), "cpu")
                                    : fmt::format("{} of {} cpus", usable, all);
  if (const auto quota = cpu_quota(view); quota && *quota < usable - 0.01) {
    return costs(fmt::format("{}, but a control group grants the time of {:.3g}", found, *quota),
                 "ranks that have used up the quota stand still, and all others wait for them",
                 fmt::format("grant {} (cpu.max; docker --cpus; kubernetes limits.cpu), or start "
                             "fewer ranks",
                             usable));
  }
  if (view.job.local_ranks > usable) {
    return costs(fmt::format("{} for {}", found,
                             counted(static_cast<std::size_t>(view.job.local_ranks), "rank")),
                 "ranks that share a cpu wait for their turn in every step",
                 fmt::format("give this host at most {} slots", usable));
  }
  return ok(found);
}

Finding check_governor(const View& view) {
  const std::string cpus = "/sys/devices/system/cpu/";
  std::map<std::string, std::size_t> slow;
  std::size_t known = 0;
  for (const std::string& cpu : view.entries(cpus)) {
    const std::string folder = cpus + cpu + "/cpufreq";
    const std::string governor = view.text(folder + "/scaling_governor");
    if (!cpu.starts_with("cpu") || governor.empty()) continue;
    ++known;
    if (!is_fast(view, folder, governor)) ++slow[governor];
  }
  if (known == 0) return ok("none to choose, as in a virtual machine");
  if (slow.empty()) return ok(fmt::format("full speed at once on {}", counted(known, "cpu")));
  std::string found;
  for (const auto& [governor, count] : slow)
    found += fmt::format("{}{} on {}", found.empty() ? "" : ", ", governor, counted(count, "cpu"));
  return costs(found, "a core that has slept while it waited starts again at a low frequency",
               "cpupower frequency-set -g performance");
}

Finding check_descriptors(const View& view) {
  const Limit& limit = view.probes.descriptors;
  const bool told = view.job.ranks > 0;
  const auto ranks = static_cast<std::uint64_t>(told ? view.job.ranks : view.probes.cpus);
  const std::uint64_t needed = descriptors_for(ranks, true);
  const std::string set =
      fmt::format("{} (hard limit {})", limit_text(limit.soft), limit_text(limit.hard));
  if (limit.soft == Limit::kUnlimited) return ok(set);
  if (limit.soft < needed) {
    const std::uint64_t wished = std::max(needed, kWishedDescriptors);
    const char* remedy = wished <= limit.hard
                             ? "ulimit -n {}"
                             : "raise it to {} in /etc/security/limits.conf (nofile), or where the "
                               "container or the service is started (LimitNOFILE)";
    // A single host opens UCX for some plans only.
    const bool breaks = view.job.hosts > 1 || limit.soft < descriptors_for(ranks, false);
    return (breaks ? broken : costs)(
        fmt::format("{}, about {} needed for {} with a network", set, needed,
                    counted(ranks, "rank")),
        "a rank holds descriptors for connections and shared memory, and UCX wants many free",
        fmt::format(fmt::runtime(remedy), wished));
  }
  return ok(fmt::format("{}, enough for about {} ranks", set, ranks_for(limit.soft)));
}

Finding check_locked_memory(const View& view) {
  const Limit& limit = view.probes.locked_memory;
  const std::string set = memory_text(limit.soft);
  const bool rdma = std::ranges::any_of(view.probes.fabric.nics, is_rdma);
  if (limit.soft == Limit::kUnlimited) return ok(set);
  if (!rdma) return ok(set + "; there is no RDMA device, which would want more");
  if (may_lock_memory(view)) return ok(set + ", which does not bind this user");
  return costs(set + " on a host with RDMA devices",
               "RDMA needs its buffers locked; UCX takes TCP instead where it cannot",
               "set memlock to unlimited in /etc/security/limits.conf, or where the container or "
               "the service is started (LimitMEMLOCK=infinity)");
}

}  // namespace echelon::doctor
