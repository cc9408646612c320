// SPDX-License-Identifier: Apache-2.0
// All that the checks of one host may look at: small files below a root, and what was found by
// trying. Tests fill both by hand; probe.h fills them on a real machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/options.h"
#include "tools/doctor/reach.h"
#include "transports/ucx/ucx.h"

namespace echelon::doctor {

// The job that this host is checked for.
struct Job {
  int hosts = 1;
  int ranks = 0;        // of all hosts; 0: not said
  int local_ranks = 0;  // of this host; 0: not said
};

// What came of trying something in a process of its own.
struct Attempt {
  int error = 0;     // errno
  int signal = 0;    // that ended the process, as a system call filter may do
  std::string said;  // what was found
  bool good() const { return error == 0 && signal == 0; }
};

std::string text_of(const Attempt& attempt);  // "Operation not permitted", "killed by signal 31"

struct Limit {
  static constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
  std::uint64_t soft = kUnlimited;
  std::uint64_t hard = kUnlimited;
};

struct Folder {
  bool exists = false;
  bool writable = false;
  std::uint64_t total = 0;  // bytes
  std::uint64_t free = 0;
};

struct Probes {
  std::string kernel;  // release
  int cpus = 1;        // this process may run on
  Limit descriptors;
  Limit locked_memory;
  Folder shm;                   // /dev/shm
  Attempt memfd;                // an anonymous file, sealed and mapped
  Attempt descriptor_of_other;  // opened through /proc/PID/fd
  Attempt memory_of_other;      // read by process_vm_readv
  Reached loopback;             // a connection to 127.0.0.1

  std::string library;  // version of libechelon.so
  std::string hwloc;
  UcxVersions ucx;
  std::vector<UcxResource> ways;     // that UCX has
  std::vector<std::string> devices;  // of the NICs that ranks use, as UCX calls them
  std::string ucx_error;             // why ranks could not open it, "" when they can
  int cuda = 0;                      // as cuDriverGetVersion tells; 0: no library to use
  std::string cuda_absence;          // why not
  int nccl = 0;                      // as ncclGetVersion tells; 0: no library to use
  std::string nccl_absence;          // why not
  std::string nvml;                  // version of the driver that it speaks to; "": none
  std::string nvml_absence;          // why not

  Options options;
  std::string options_error;
  std::map<std::string, std::string> variables;  // ECHELON_* and UCX_* that are set; no secret
  std::vector<UnknownVariable> unknown;          // those that nothing reads

  Host fabric;  // with what the fabric file says
  std::string fabric_error;
};

struct View {
  std::string root;  // in front of "/proc" and "/sys"; "" for this machine
  Job job;
  Probes probes;

  std::string text(const std::string& path) const;  // without the last newline; "" when unreadable
  std::optional<double> number(const std::string& path) const;        // at the front, finite
  std::vector<std::string> entries(const std::string& folder) const;  // sorted names
};

}  // namespace echelon::doctor
