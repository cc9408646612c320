// SPDX-License-Identifier: Apache-2.0
// The one table of settings: every ECHELON_* variable, its type, default and meaning. This is the
// only place of the library that reads the environment, once per communicator.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "echelon/echelon.h"
#include "lib/bootstrap/environment.h"

namespace echelon {

// What a communicator is made with. Fields that ech_comm_options sets win over the environment.
struct Options {
  std::string algorithm;  // "" = choose by cost
  // An impossible `algorithm` is no error, nor is a `timeline`: the parts of a split.
  bool if_possible = false;
  std::string bootstrap = "auto";
  std::string fabric_file;     // "" = none
  std::string fabric_text;     // what is in it, once it has been read
  std::string tuning_file;     // "" = none
  std::string tuning_text;     // likewise
  std::string interface_name;  // "" = of the default route
  ech_log_level log_level = ECH_LOG_WARN;
  double timeout = 300;  // s
  double heartbeat = 5;  // s of silence after which a rank is given up, while somebody waits
  double stall = 2;      // s without progress before the ranks compare what they are doing
  bool check = false;    // compare before every operation
  bool probe = false;
  std::string single_copy = "auto";  // process_vm_readv: auto, on, off
  double spin = 200e-6;              // s of busy waiting before sleeping
  std::string ucx_tls;               // "" = our choice
  std::string nccl;                  // path of the library; "" = libnccl.so.2
  bool nccl_register = false;        // memory of ech_alloc on GPUs
  std::string timeline;              // path of the trace; "" = none
  std::string nics;                  // "" = nearest; else a comma-separated list
  std::string slurm_address;         // where Slurm's topology puts this host: "core.leaf3.node17"
  std::string machine;               // whose CPUs this rank uses; "": by the kernel's boot id
  std::string slurm_pattern;         // and what the parts of it are: "switch.switch.node"
  std::string ucx_receive_size;      // of a buffer of UCX's TCP, where the user has set it
};

// Defaults overlaid with what `lookup` (usually getenv) knows. Throws ECH_ERR_INVALID naming the
// variable, its value and what was expected.
Options read_options(const Lookup& lookup);

// Those in which the ranks must be alike, or they would do different things: one line.
std::string settings_to_agree_on(const Options& options);

// A variable that is called as ours are, but that nothing reads.
struct UnknownVariable {
  std::string name;
  std::string nearest;  // the one that was meant, as far as the spelling tells; may be ""
};

// Those of `environment`, which ends with a null pointer as `environ` does.
std::vector<UnknownVariable> unknown_variables(const char* const* environment);

// A row of the table, for the documentation.
struct OptionRow {
  std::string_view variable, type, fallback, help;
};
std::span<const OptionRow> option_table();

}  // namespace echelon
