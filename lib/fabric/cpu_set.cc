// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/cpu_set.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <charconv>

namespace echelon {
namespace {

// Takes a decimal number below kLimit from the front of `text`.
std::optional<int> take_cpu(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value >= CpuSet::kLimit) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

CpuSet CpuSet::range(int first, int last) {
  CpuSet set;
  for (int cpu = first; cpu <= last; ++cpu) set.add(cpu);
  return set;
}

std::optional<CpuSet> CpuSet::parse(std::string_view list) {
  CpuSet set;
  if (list.empty()) return set;
  do {
    const std::optional<int> first = take_cpu(list);
    if (!first) return {};
    std::optional<int> last = first;
    if (take(list, '-')) last = take_cpu(list);
    if (!last || *last < *first) return {};
    for (int cpu = *first; cpu <= *last; ++cpu) set.add(cpu);
  } while (take(list, ','));
  if (!list.empty()) return {};
  return set;
}

std::optional<CpuSet> CpuSet::parse_mask(std::string_view mask) {
  CpuSet set;
  int bit = 0;
  // From the last word to the first; commas separate 32-bit words with all their digits.
  for (auto c = mask.rbegin(); c != mask.rend(); ++c) {
    if (*c == ',') continue;
    int digit = 0;
    if (std::from_chars(&*c, &*c + 1, digit, 16).ec != std::errc()) return {};
    if (bit + 4 > kLimit) return {};
    for (int i = 0; i < 4; ++i)
      if (digit >> i & 1) set.add(bit + i);
    bit += 4;
  }
  return set;
}

void CpuSet::add(int cpu) {
  const std::size_t word = static_cast<std::size_t>(cpu) / 64;
  if (words_.size() <= word) words_.resize(word + 1);
  words_[word] |= std::uint64_t{1} << (cpu % 64);
}

void CpuSet::add(const CpuSet& other) {
  if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
  for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
}

bool CpuSet::contains(int cpu) const {
  const std::size_t word = static_cast<std::size_t>(cpu) / 64;
  return cpu >= 0 && word < words_.size() && (words_[word] >> (cpu % 64) & 1) != 0;
}

bool CpuSet::contains(const CpuSet& other) const {
  if (other.words_.size() > words_.size()) return false;
  for (std::size_t i = 0; i < other.words_.size(); ++i)
    if ((other.words_[i] & ~words_[i]) != 0) return false;
  return true;
}

bool CpuSet::intersects(const CpuSet& other) const {
  for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i)
    if ((words_[i] & other.words_[i]) != 0) return true;
  return false;
}

int CpuSet::count() const {
  int n = 0;
  for (std::uint64_t word : words_) n += std::popcount(word);
  return n;
}

std::string CpuSet::list() const {
  std::string out;
  const int end = static_cast<int>(words_.size()) * 64;
  for (int cpu = 0; cpu < end; ++cpu) {
    if (!contains(cpu)) continue;
    int last = cpu;
    while (contains(last + 1)) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", cpu);
    if (last > cpu) out += fmt::format("-{}", last);
    cpu = last;
  }
  return out;
}

CpuSet allowed_cpus() {
  CpuSet cpus;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask)) cpus.add(cpu);
  return cpus;
}

}  // namespace echelon
