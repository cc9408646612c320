// SPDX-License-Identifier: Apache-2.0
// `echelon run --mpi-dropin`: ranks that are an MPI program's must be started by MPI's own
// launcher. This makes its command line, with Echelon in front of the MPI library.
#pragma once

#include <string>
#include <vector>

#include "tools/cluster/cluster.h"
#include "tools/run_options.h"

namespace echelon::run {

// The words of mpirun. `hosts` empty: this machine. Throws ECH_ERR_INVALID for options that mpirun
// has no equivalent of, and where libechelon-mpi.so is not there.
std::vector<std::string> mpirun_command(const Options& options,
                                        const std::vector<HostSlots>& hosts);

// Puts mpirun in the place of this process.
int run_mpi(const Options& options);

// The same on host0 of a virtual cluster, for all its hosts. mpirun's exit code.
int run_mpi(const Options& options, const cluster::Cluster& cluster);

}  // namespace echelon::run
