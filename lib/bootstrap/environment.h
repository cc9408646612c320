// SPDX-License-Identifier: Apache-2.0
// What a launcher says in environment variables: who this rank is and where the ranks meet.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/bootstrap/rendezvous.h"

namespace echelon {

// The value of a variable, or null. Values must stay valid during the call.
using Lookup = std::function<const char*(const char* name)>;

struct Launch {
  Identity identity;     // host is empty when the launcher says nothing of the meeting point
  std::string launcher;  // "echelon run", "torchrun", "Open MPI", "Slurm"
};

// The first launcher of that order whose variables are set; nothing when there is none. A pure
// function of `lookup`. Throws ECH_ERR_INVALID naming the variable and its value for variables
// that are missing, malformed or contradict each other. docs/bootstrap.md has the table.
std::optional<Launch> read_environment(const Lookup& lookup);

// The first host of a Slurm list: "n[08-11,15],m3" -> "n08". Throws ECH_ERR_INVALID.
std::string first_slurm_host(const std::string& list);

}  // namespace echelon
