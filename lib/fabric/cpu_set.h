// SPDX-License-Identifier: Apache-2.0
// A set of logical CPUs by their number in the operating system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echelon {

class CpuSet {
 public:
  static constexpr int kLimit = 1 << 16;  // CPU numbers are below it

  CpuSet() = default;
  static CpuSet range(int first, int last);  // both included

  // "0-3,8,10-11", as Linux writes lists; nothing when it is not one. "" is the empty set.
  static std::optional<CpuSet> parse(std::string_view list);
  // "00000000,00ffffff", as Linux writes masks.
  static std::optional<CpuSet> parse_mask(std::string_view mask);

  void add(int cpu);  // 0 <= cpu < kLimit
  void add(const CpuSet& other);
  bool contains(int cpu) const;
  bool contains(const CpuSet& other) const;
  bool intersects(const CpuSet& other) const;
  int count() const;
  bool empty() const { return words_.empty(); }
  std::string list() const;

  friend bool operator==(const CpuSet&, const CpuSet&) = default;

 private:
  std::vector<std::uint64_t> words_;  // invariant: the last word is not 0
};

// Of this process; empty where the kernel does not tell.
CpuSet allowed_cpus();

}  // namespace echelon
