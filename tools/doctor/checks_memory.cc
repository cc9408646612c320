// SPDX-License-Identifier: Apache-2.0
// Checks of what ranks of one host need to share memory.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "tools/doctor/checks.h"

namespace echelon::doctor {
namespace {

// What a UCX 1.13 worker takes in /dev/shm as soon as it is made, rounded up.
constexpr std::uint64_t kShmPerRank = 4400 << 10;

std::string mib(std::uint64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

// The options with which /proc is mounted that hide other processes; "" when none does.
std::string hiding_option(const View& view) {
  std::istringstream mounts(view.text("/proc/self/mounts"));
  std::string line;
  while (std::getline(mounts, line)) {
    std::istringstream fields(line);
    std::string device, where, type, option;
    fields >> device >> where >> type;
    if (where != "/proc" || type != "proc") continue;
    while (std::getline(fields >> std::ws, option, ',')) {
      option = option.substr(0, option.find(' '));
      if (option.starts_with("hidepid=") && option != "hidepid=0" && option != "hidepid=off")
        return option;
    }
  }
  return {};
}

// Why one process may not read another's memory.
std::string who_refuses(const View& view) {
  const Attempt& attempt = view.probes.memory_of_other;
  const double scope = view.number("/proc/sys/kernel/yama/ptrace_scope").value_or(0);
  if (attempt.signal != 0 || attempt.error == ENOSYS) return "a system call filter, or the kernel";
  if (scope > 0) return fmt::format("kernel.yama.ptrace_scope={:.0f}", scope);
  const bool filtered = view.text("/proc/self/status").find("Seccomp:\t2") != std::string::npos;
  return filtered ? "a system call filter" : "the kernel or its security module";
}

std::string remedy_for_vm_readv(const View& view) {
  if (view.number("/proc/sys/kernel/yama/ptrace_scope").value_or(0) > 0)
    return "sysctl kernel.yama.ptrace_scope=0, or no ECHELON_SINGLE_COPY=on";
  return "in a container: --cap-add SYS_PTRACE or a seccomp profile that allows it; or "
         "no ECHELON_SINGLE_COPY=on";
}

}  // namespace

Finding check_memfd(const View& view) {
  const Attempt& attempt = view.probes.memfd;
  if (attempt.good()) return ok("anonymous shared memory works");
  return broken(
      fmt::format("memfd_create: {}", text_of(attempt)), "ranks of one host share memory by it",
      "allow memfd_create in the container's system call filter, and memory in its limit");
}

Finding check_proc_fd(const View& view) {
  const Attempt& attempt = view.probes.descriptor_of_other;
  const std::string hidden = hiding_option(view);
  const std::string mounted = hidden.empty() ? "" : fmt::format(" (/proc has {})", hidden);
  if (attempt.good()) return ok("/proc/PID/fd of other ranks can be opened" + mounted);
  if (!view.probes.memfd.good()) return ok("not tried: there is no memfd to open");
  return broken(fmt::format("/proc/PID/fd of another process: {}{}", text_of(attempt), mounted),
                "ranks of one host map each other's memory through it",
                hidden.empty()
                    ? "run the ranks as one user, in one pid namespace with its own /proc"
                    : "mount -o remount,hidepid=0 /proc");
}

Finding check_vm_readv(const View& view) {
  const Attempt& attempt = view.probes.memory_of_other;
  if (attempt.good()) return ok("allowed");
  const std::string found =
      fmt::format("process_vm_readv: {}, by {}", text_of(attempt), who_refuses(view));
  if (view.probes.options.single_copy != "on")
    return ok(found + "; broadcasts and allgathers take the way through slots");
  return costs(found, "large calls take the way through slots", remedy_for_vm_readv(view));
}

Finding check_dev_shm(const View& view) {
  const Folder& shm = view.probes.shm;
  const auto needed = kShmPerRank * static_cast<std::uint64_t>(std::max(1, view.job.local_ranks));
  const std::string remedy =
      "mount -o remount,rw,size=50% /dev/shm (docker --shm-size), and remove "
      "what was left in it";
  if (!shm.exists) {
    return costs("not there", "messages between ranks of one host take slower ways",
                 "mount -t tmpfs tmpfs /dev/shm");
  }
  const std::string found =
      shm.writable ? fmt::format("{} of {} free", mib(shm.free), mib(shm.total)) : "not writable";
  if (shm.writable && shm.free >= needed)
    return ok(fmt::format("{}, enough for {} ranks", found, shm.free / kShmPerRank));
  const std::string told = view.job.local_ranks > 0 && shm.writable
                               ? fmt::format("{}, {} needed", found, mib(needed + (1 << 20) - 1))
                               : found;
  // Where there is too little, UCX is opened without it, unless the user has said what it is to
  // use.
  if (view.job.hosts > 1 && (!shm.writable || !view.probes.options.ucx_tls.empty()))
    return broken(told, "UCX takes 4.3 MiB for every rank, or refuses to start", remedy);
  return costs(
      told, "UCX takes 4.3 MiB for every rank: messages between ranks of a host take the network",
      remedy);
}

}  // namespace echelon::doctor
