// SPDX-License-Identifier: Apache-2.0
// A cluster of virtual hosts on this machine, which every library takes for real: own host names,
// addresses, process numbers, shared memory and boot ids, joined by links of a stated speed.
//
//   Cluster cluster(parse_spec("2x2:1gbit"));
//   cluster.run(0, {"ping", "-c1", "host1"});
//   cluster.traffic().nics[0].sent;
//
// Everything ends with the object, also when its process is killed: see host.h.
// Thread safety: one thread at a time, which must be the one that made it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cluster/host.h"
#include "tools/cluster/spec.h"

namespace echelon::cluster {

struct Counter {
  std::string owner;  // "host2", "rack1"
  std::string device;
  std::uint64_t sent = 0;  // bytes since the cluster was made, link headers included
  std::uint64_t received = 0;
};

struct Traffic {
  std::vector<Counter> nics;     // by host, then by NIC
  std::vector<Counter> uplinks;  // by rack; empty with one rack
};

Traffic operator-(const Traffic& later, const Traffic& earlier);

class Cluster {
 public:
  // Throws ECH_ERR_UNSUPPORTED that says what this machine lacks (root, namespaces, ip, tc).
  explicit Cluster(Spec spec);

  const Spec& spec() const { return spec_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  static std::string host_name(int host);
  static std::string address(int host, int nic = 0);

  // Starts a program on a host, in the present folder; wait for it with wait_for().
  pid_t spawn(int host, const Command& command) const;
  // Runs it to its end: the exit code, or 128 + signal.
  int run(int host, const std::vector<std::string>& argv) const;

  Traffic traffic() const;

  // Puts a file into the host's private folder and returns its path there.
  std::string put_file(int host, const std::string& name, const std::string& text,
                       mode_t mode) const;

  // Ways to cut a host off, and all but one back again.
  void delete_address(int host, int nic = 0) const;
  void add_address(int host, int nic = 0) const;
  void set_link(int host, bool up, int nic = 0) const;
  void delete_nic(int host, int nic = 0) const;  // for good
  void stop(int host) const;                     // SIGSTOP to all of its processes
  void resume(int host) const;                   // SIGCONT

  // For sockets that belong to the host's network although this process does not.
  const Namespace& host(int index) const { return hosts_.at(static_cast<std::size_t>(index)); }

 private:
  void configure(int host, const std::string& lines) const;
  void signal_all(int host, int signal) const;

  Spec spec_;
  Namespace switch_;
  std::vector<Namespace> hosts_;
};

}  // namespace echelon::cluster
