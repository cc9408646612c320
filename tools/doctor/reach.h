// SPDX-License-Identifier: Apache-2.0
// Whether a TCP connection to another host can be made, and what stands in the way.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"

namespace echelon::doctor {

enum class Outcome {
  kConnected,
  kRefused,     // somebody answered: nobody listens there, or a firewall rejects
  kFiltered,    // no answer
  kNoRoute,     // the network knows no way
  kForbidden,   // by this host's own rules
  kUnresolved,  // the name has no address
  kFailed,      // anything else
};

std::string_view name(Outcome outcome);  // "connected", "refused", ...
std::optional<Outcome> parse_outcome(std::string_view text);

struct Target {
  std::string host;  // a name or an address
  std::uint16_t port = 0;
};

struct Reached {
  Outcome outcome = Outcome::kConnected;
  std::string address;  // that was tried, with its port
  std::string detail;   // the system's words
};

// A socket on every address and a port that the system chose. Connections to it succeed as long as
// it exists; nobody needs to accept them.
struct OpenPort {
  Fd fd;
  std::uint16_t port = 0;
};
OpenPort open_port();

// Tries each target for at most `limit` seconds, several at a time. The result is parallel to the
// targets.
std::vector<Reached> reach(std::span<const Target> targets, double limit);

// How long that may take, looking up names not counted.
double longest_reach(std::size_t targets, double limit);

}  // namespace echelon::doctor
