// SPDX-License-Identifier: Apache-2.0
// A transport that misbehaves by script, around any other: for tests, and for drills.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "transports/transport.h"

namespace echelon {

enum class FaultKind {
  kDelay,  // messages to the peer leave later
  kDrop,   // messages to the peer are lost; their sends are done as if they were not
  kCut,    // nothing goes to or comes from the peer any more, and nobody is told
  kFail    // everything pending and later with the peer ends with ECH_ERR_PEER
};

// Begins with the message to the peer that follows `after_messages`, or that goes beyond
// `after_bytes`, whichever is later, and never ends. With neither, it begins at once.
struct Fault {
  FaultKind kind = FaultKind::kDelay;
  int peer = -1;  // -1: each, counted separately
  std::uint64_t after_messages = 0;
  std::uint64_t after_bytes = 0;
  std::chrono::microseconds delay{0};
};

using FaultScript = std::vector<Fault>;

// "delay 20ms; drop peer 2 after 3 messages; cut peer 1 after 65536 bytes; fail peer 0":
// statements `KIND [TIME] [peer RANK] [after COUNT messages|bytes]`, times in us, ms or s.
// Throws ECH_ERR_INVALID, naming the statement.
FaultScript parse_faults(std::string_view text);

// Copies all data, so that what a fault leaves behind in `medium` cannot touch the caller's.
std::unique_ptr<Medium> with_faults(std::unique_ptr<Medium> medium, FaultScript script);

}  // namespace echelon
