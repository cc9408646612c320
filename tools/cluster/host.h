// SPDX-License-Identifier: Apache-2.0
// One virtual host: a process that is init of its own net, uts, ipc, pid and mount namespaces and
// keeps them alive. Nothing of it has a name outside, so its death removes everything: the kernel
// kills all processes of the pid namespace with their init and frees namespaces without users.
//
// Thread safety: one thread at a time; the thread that makes a namespace must outlive it, because
// the kernel ends init when that thread ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/cluster/process.h"

namespace echelon::cluster {

// Where a host finds what is private to it: the fabric file, the rsh agent.
inline constexpr const char* kPrivateFolder = "/dev/shm/.cluster";

class Namespace {
 public:
  Namespace() = default;
  Namespace(Namespace&& other) noexcept;
  Namespace& operator=(Namespace&& other) noexcept;
  ~Namespace();  // kills every process inside and waits until they are gone

  struct HostIdentity {
    std::string name;
    std::string boot_id;
    std::string etc_hosts;
    std::vector<int> cpus;  // that its programs may use; empty: all
  };

  // A host; returns at once, await_ready() waits for its mounts.
  static Namespace host(const HostIdentity& identity);
  // The switch: a network namespace, and a mount namespace with its /sys.
  static Namespace network();

  void await_ready();  // throws what went wrong inside

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }

  // Starts a program in all namespaces of the host; its id is that of this process's namespace.
  pid_t spawn(const Command& command) const;
  // The same, but in the network namespace only (for ip and tc, which need this machine's files).
  pid_t spawn_in_network(const Command& command) const;

 private:
  static Namespace start(int flags, const HostIdentity* identity);

  pid_t pid_ = -1;
  Fd pidfd_;
  Fd lifeline_;  // its closing ends init, also when this process dies before init is set up
  Fd report_;
  std::vector<int> cpus_;
  mutable std::vector<Fd> children_;  // started by spawn(), as process descriptors
};

// This thread in one namespace of a host, for one scope: the pid namespace its children are born
// into, or the network its sockets belong to.
class NamespaceScope {
 public:
  NamespaceScope(int pidfd, int flag);  // CLONE_NEWPID or CLONE_NEWNET
  ~NamespaceScope();
  NamespaceScope(const NamespaceScope&) = delete;
  NamespaceScope& operator=(const NamespaceScope&) = delete;

 private:
  Fd own_;
  int flag_;
};

}  // namespace echelon::cluster
