// SPDX-License-Identifier: Apache-2.0
// What a check says, and what all checks of one host say together. Plain data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace echelon::doctor {

// kCosts: it works, but slower than it could or only for a part of what Echelon does.
enum class Verdict { kOk, kCosts, kBroken };

std::string_view name(Verdict verdict);  // "ok", "costs", "broken"

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string found;
  std::string why;     // it matters; empty when ok
  std::string remedy;  // the same
  std::string check;   // whose finding it is, as in the tables of checks
  std::string host;    // empty when it is of no one host
  friend bool operator==(const Finding&, const Finding&) = default;
};

std::string counted(std::size_t count, std::string_view what);  // "1 host", "2 hosts"

Finding ok(std::string found);
Finding costs(std::string found, std::string why, std::string remedy);
Finding broken(std::string found, std::string why, std::string remedy);

// A NIC that ranks would use.
struct NicFact {
  std::string name;
  std::string kind;  // "ethernet", ...
  double bytes_per_second = 0;
  std::string address;  // one by which others can reach it; "" when it has none
  friend bool operator==(const NicFact&, const NicFact&) = default;
};

// Empty where there is none.
struct Versions {
  std::string echelon, kernel, ucx, hwloc, nccl, cuda;
  friend bool operator==(const Versions&, const Versions&) = default;
};

struct Report {
  std::string host;
  Versions versions;
  std::vector<NicFact> nics;
  std::vector<Finding> findings;
  friend bool operator==(const Report&, const Report&) = default;
};

}  // namespace echelon::doctor
