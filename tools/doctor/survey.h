// SPDX-License-Identifier: Apache-2.0
// What was found on all hosts and between them. Plain data, and the checks that compare hosts:
// pure functions of it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/reach.h"

namespace echelon::doctor {

// A host's clock against that of the machine where the survey runs.
struct ClockOffset {
  double seconds = 0;      // ahead
  double uncertainty = 0;  // half a round trip
};

struct HostSurvey {
  std::string name;
  std::string problem;  // why it could not be examined; "" when it was
  Report report;
  std::optional<ClockOffset> clock;
};

// One attempt to connect from a host to another, or to itself by its own name.
struct Connection {
  std::size_t from = 0, to = 0;  // in Survey::hosts
  std::string via;               // the NIC whose address was taken; "" for the name of the host
  Reached reached;
};

struct Survey {
  std::vector<HostSurvey> hosts;
  std::vector<Connection> connections;
};

struct ComparingCheck {
  std::string_view name;
  std::vector<Finding> (*judge)(const Survey& survey);
};

// In the order in which they are shown.
std::span<const ComparingCheck> comparing_checks();

// The findings of every host, then those of the comparing checks.
std::vector<Finding> all_findings(const Survey& survey);

// ---- the checks

std::vector<Finding> check_hosts(const Survey& survey);
std::vector<Finding> check_versions(const Survey& survey);
std::vector<Finding> check_nic_match(const Survey& survey);
std::vector<Finding> check_firewall(const Survey& survey);
std::vector<Finding> check_clock(const Survey& survey);

}  // namespace echelon::doctor
