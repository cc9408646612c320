// SPDX-License-Identifier: Apache-2.0
// The one error type used inside the library. Thrown on the control path; stored in completions
// on the data path; translated once, in lib/c_api.cc.
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>

#include "echelon/echelon.h"

namespace echelon {

class Error : public std::runtime_error {
 public:
  Error(ech_status code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ech_status code() const noexcept { return code_; }

 private:
  ech_status code_;
};

const char* name(ech_status status);  // "ok", "timeout", ..., "unknown status"

inline Error invalid(const std::string& message) { return {ECH_ERR_INVALID, message}; }

// "what: strerror(errno)", and where a resource ran out which one and what raises it. Exhaustion of
// descriptors, threads, memory and space is ECH_ERR_NO_MEMORY.
Error system_error(const std::string& what, int error = errno);

}  // namespace echelon
