// SPDX-License-Identifier: Apache-2.0
// The command line of `echelon run` as data, and how it becomes a plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cluster/cluster.h"
#include "tools/run_hosts.h"
#include "tools/run_launcher.h"

namespace echelon::run {

struct Options {
  int n = 0;  // 0: all slots, or 1 on this machine
  std::string hosts;
  std::string hostfile;
  std::string fabric;
  bool no_fabric = false;
  Bind bind = Bind::kAuto;
  Placement placement = Placement::kBySlot;
  std::string nics;              // of every rank; "": the nearest of each
  std::vector<std::string> env;  // NAME or NAME=VALUE
  Lines lines = Lines::kAuto;
  bool keep_going = false;
  double timeout = 0;
  double check_timeout = 20;
  std::string interface_name;
  std::string emulate;
  std::string launcher;        // "", "ssh", "mpirun", "srun"
  std::string ssh_command;     // "": $ECHELON_RSH, as hosts of a virtual cluster have, else ssh
  std::string remote_echelon;  // path of this program there; "": the same as here
  std::string traffic_file;    // bytes that each NIC and uplink has moved; "-": a table on stderr
  bool mpi_dropin = false;     // mpirun starts the ranks, with Echelon in front of its library
  std::string shell;           // a command for host0 instead of ranks
  std::vector<std::string> program;
};

// Throws ECH_ERR_INVALID that names the option or the program. Starts nothing.
void validate(const Options& options);

// Of a virtual cluster.
std::vector<HostSlots> hosts_of(const cluster::Cluster& cluster);
// The variables by which ranks there know the machine that they are on, and find the cluster's
// fabric file, which this puts onto the host, unless the user says it differently.
std::vector<std::string> tell_host(const Options& options, const cluster::Cluster& cluster,
                                   int host);

// For the hosts of the options, or this machine.
RunPlan make_plan(const Options& options);
// For the hosts of a virtual cluster, which must outlive the plan.
RunPlan make_plan(const Options& options, const cluster::Cluster& cluster);

// NAME=VALUE for every rank, as the options say it. Throws ECH_ERR_INVALID.
std::vector<std::string> added_environment(const Options& options);

// Those of -H or --hostfile, else of the batch job that this process is in; empty: this machine.
// Throws ECH_ERR_INVALID.
std::vector<HostSlots> listed_hosts(const Options& options);

std::string own_path();  // of this program

}  // namespace echelon::run
