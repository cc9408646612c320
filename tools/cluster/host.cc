// SPDX-License-Identifier: Apache-2.0
#include "tools/cluster/host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "lib/base/error.h"

namespace echelon::cluster {
namespace {

void mount_or_throw(const char* source, const char* target, const char* type, unsigned long flags) {
  if (mount(source, target, type, flags, nullptr) == 0) return;
  throw system_error(fmt::format("cannot mount {} on {}", source, target));
}

void bind_text(const std::string& name, std::string_view text, const char* target) {
  const std::string file = "/dev/shm/" + name;
  write_file(file, text);
  mount_or_throw(file.c_str(), target, nullptr, MS_BIND);
}

// sysfs shows the NICs of the network namespace that mounted it. The control groups below it are
// kept, as they say which cores may be used.
void mount_sysfs() {
  const Fd groups(static_cast<int>(
      syscall(SYS_open_tree, AT_FDCWD, "/sys/fs/cgroup", OPEN_TREE_CLONE | AT_RECURSIVE)));
  mount_or_throw("sysfs", "/sys", "sysfs", 0);
  if (groups) {
    syscall(SYS_move_mount, groups.get(), "", AT_FDCWD, "/sys/fs/cgroup", MOVE_MOUNT_F_EMPTY_PATH);
  }
}

void set_network_defaults() {
  // Linux's own, not what this machine has chosen: cubic, or, where namespaces may not have that,
  // reno, which is in every kernel. Stays as it is where that is not allowed either.
  for (const char* name : {"reno", "cubic"})
    std::ofstream("/proc/sys/net/ipv4/tcp_congestion_control") << name;
  // Two NICs of one host share a switch: each must answer for its own address only.
  write_file("/proc/sys/net/ipv4/conf/all/arp_ignore", "1");
  write_file("/proc/sys/net/ipv4/conf/all/arp_announce", "2");
  // No neighbour discovery in the byte counters. Absent in kernels without IPv6.
  if (access("/proc/sys/net/ipv6", F_OK) == 0) {
    write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  }
}

void become_host(const Namespace::HostIdentity& identity) {
  if (sethostname(identity.name.data(), identity.name.size()) != 0) {
    throw system_error("cannot set the host name");
  }
  mount_or_throw("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC);
  // The first tmpfs holds the sources of the bind mounts; the second one hides it.
  mount_or_throw("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV);
  bind_text("boot_id", identity.boot_id + "\n", "/proc/sys/kernel/random/boot_id");
  bind_text("hosts", identity.etc_hosts, "/etc/hosts");
  mount_or_throw("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV);
  if (mkdir(kPrivateFolder, 0755) != 0) throw system_error("cannot make a private folder");
}

// Closes everything but the two descriptors, so that no lifeline or pipe of others stays open.
void close_others(int keep_a, int keep_b) {
  const auto [low, high] = std::minmax(keep_a, keep_b);
  if (low > 0) close_range(0, low - 1, 0);
  close_range(low + 1, high - 1, 0);
  close_range(high + 1, ~0U, 0);
}

[[noreturn]] void init_main(const Namespace::HostIdentity* identity, int lifeline, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "echelon-host");
  setsid();
  signal(SIGCHLD, SIG_IGN);  // orphans that end here leave no zombies
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  close_others(lifeline, report);
  try {
    mount_or_throw("none", "/", nullptr, MS_REC | MS_PRIVATE);
    if (identity != nullptr) become_host(*identity);
    mount_sysfs();
    set_network_defaults();
  } catch (const std::exception& e) {
    const std::string_view text = e.what();
    [[maybe_unused]] const ssize_t n = write(report, text.data(), text.size());
    _exit(1);
  }
  close(report);
  char byte;
  while (read(lifeline, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

Fd open_process(pid_t pid) {
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));  // closes on exec
  if (!fd) throw system_error("cannot open a process descriptor");
  return fd;
}

}  // namespace

Namespace::Namespace(Namespace&& other) noexcept { *this = std::move(other); }

Namespace& Namespace::operator=(Namespace&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(lifeline_, other.lifeline_);
  std::swap(report_, other.report_);
  std::swap(cpus_, other.cpus_);
  std::swap(children_, other.children_);
  return *this;
}

Namespace::~Namespace() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  // Init ends, and can be waited for, only after all processes of its namespace have been: those
  // that were started here are this process's children, not its own.
  for (const Fd& child : children_) {
    siginfo_t ignored;
    while (waitid(P_PIDFD, static_cast<id_t>(child.get()), &ignored, WEXITED) < 0 && errno == EINTR)
      continue;
  }
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

Namespace Namespace::start(int flags, const HostIdentity* identity) {
  Namespace out;
  Pipe lifeline = make_pipe();
  Pipe report = make_pipe();
  const auto pid = static_cast<pid_t>(syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0));
  if (pid < 0) {
    const int error = errno;
    const std::string message = error == EPERM
                                    ? "cannot create namespaces: root (CAP_SYS_ADMIN) is needed"
                                    : system_error("cannot create namespaces", error).what();
    throw Error(ECH_ERR_UNSUPPORTED, message);
  }
  if (pid == 0) init_main(identity, lifeline.read.get(), report.write.get());
  out.pid_ = pid;
  out.lifeline_ = std::move(lifeline.write);
  out.report_ = std::move(report.read);
  out.pidfd_ = open_process(pid);
  return out;
}

Namespace Namespace::host(const HostIdentity& identity) {
  Namespace out =
      start(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNS, &identity);
  out.cpus_ = identity.cpus;
  return out;
}

Namespace Namespace::network() { return start(CLONE_NEWNET | CLONE_NEWNS, nullptr); }

void Namespace::await_ready() {
  std::string problem;
  char buffer[512];
  ssize_t n = 0;
  while ((n = read(report_.get(), buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) problem.append(buffer, static_cast<std::size_t>(n));
  }
  report_ = Fd();
  if (!problem.empty()) throw Error(ECH_ERR_UNSUPPORTED, "virtual host: " + problem);
}

pid_t Namespace::spawn(const Command& command) const {
  const int pidfd = pidfd_.get();
  const NamespaceScope scope(pidfd, CLONE_NEWPID);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus_) CPU_SET(cpu, &set);
  const bool bound = !cpus_.empty();
  const pid_t child = cluster::spawn(command, [pidfd, &set, bound] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (bound && sched_setaffinity(0, sizeof set, &set) != 0) return errno;
    const int flags = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS;
    char directory[4096];
    const bool known = getcwd(directory, sizeof directory) != nullptr;
    if (setns(pidfd, flags) != 0) return errno;
    // Joining a mount namespace moves the process to its root.
    if (known && chdir(directory) != 0) return errno;
    return 0;
  });
  children_.push_back(open_process(child));
  return child;
}

pid_t Namespace::spawn_in_network(const Command& command) const {
  const int pidfd = pidfd_.get();
  return cluster::spawn(command, [pidfd] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return setns(pidfd, CLONE_NEWNET) == 0 ? 0 : errno;
  });
}

NamespaceScope::NamespaceScope(int pidfd, int flag)
    : own_(open(flag == CLONE_NEWPID ? "/proc/self/ns/pid" : "/proc/thread-self/ns/net",
                O_RDONLY | O_CLOEXEC)),
      flag_(flag) {
  if (!own_) throw system_error("cannot open this process's namespace");
  if (setns(pidfd, flag) != 0) throw system_error("cannot enter a virtual host");
}

NamespaceScope::~NamespaceScope() { setns(own_.get(), flag_); }

}  // namespace echelon::cluster
