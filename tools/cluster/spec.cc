// SPDX-License-Identifier: Apache-2.0
#include "tools/cluster/spec.h"

#include <fmt/format.h>

#include <charconv>

#include "lib/base/error.h"

namespace echelon::cluster {
namespace {

constexpr int kMaxRacks = 32;
constexpr int kMaxHosts = 250;
constexpr int kMaxRanksPerHost = 256;
constexpr int kMaxNics = 8;
constexpr double kMinBits = 1e5;
constexpr double kMaxBits = 1e12;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Spec parse() {
    Spec spec;
    shape(spec);
    if (accept(':')) {
      links(spec);
      while (accept(',')) exception(spec);
    }
    if (at_ < text_.size()) fail(text_.find(':') < at_ ? "the end" : "'x', '+', ':' or the end");
    return spec;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw invalid(
        fmt::format("cluster '{}': position {}: expected {}; forms: 4x2:1gbit, 3+1+2:1gbit, "
                    "2x2x2:1gbit/10gbit, 4x2:2x1gbit, 4x2, 4x2:1gbit,host2=200mbit",
                    text_, at_ + 1, expected));
  }

  bool accept(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  int count(int max, const char* what) {
    const std::size_t start = at_;
    int value = 0;
    const char* end = text_.data() + text_.size();
    const auto [next, error] = std::from_chars(text_.data() + at_, end, value);
    if (error != std::errc() || value < 1 || value > max) {
      at_ = start;
      fail(fmt::format("{} from 1 to {}", what, max));
    }
    at_ = static_cast<std::size_t>(next - text_.data());
    return value;
  }

  void shape(Spec& spec) {
    const int first = count(kMaxRanksPerHost, "a number");
    if (at_ < text_.size() && text_[at_] == '+') return unequal(spec, first);
    if (!accept('x')) fail("'x' or '+'");
    const int second = count(kMaxRanksPerHost, "a number");
    if (!accept('x')) return add_hosts(spec, {1, first, second});
    const int third = count(kMaxRanksPerHost, "ranks per host");
    add_hosts(spec, {first, second, third});
  }

  void unequal(Spec& spec, int first) {
    spec.hosts.push_back({0, first});
    while (accept('+')) spec.hosts.push_back({0, count(kMaxRanksPerHost, "ranks of a host")});
    if (spec.hosts.size() > kMaxHosts) fail(fmt::format("at most {} hosts", kMaxHosts));
  }

  struct Equal {
    int racks, hosts, ranks;
  };

  void add_hosts(Spec& spec, Equal equal) const {
    if (equal.racks > kMaxRacks) fail(fmt::format("at most {} racks", kMaxRacks));
    if (equal.racks * equal.hosts > kMaxHosts) fail(fmt::format("at most {} hosts", kMaxHosts));
    spec.racks = equal.racks;
    for (int rack = 0; rack < equal.racks; ++rack) {
      for (int host = 0; host < equal.hosts; ++host) spec.hosts.push_back({rack, equal.ranks});
    }
  }

  void links(Spec& spec) {
    if (spec.racks > 1) {
      spec.uplink_bits = rate();
      if (!accept('/')) fail("'/' and the speed of a host's link");
    }
    // "2x1gbit": a number directly followed by 'x' counts NICs.
    const std::size_t digits = text_.find_first_not_of("0123456789", at_);
    if (digits != std::string_view::npos && digits > at_ && text_[digits] == 'x') {
      spec.nics = count(kMaxNics, "NICs per host");
      accept('x');
    }
    spec.nic_bits = rate();
    if (spec.racks == 1 && at_ < text_.size() && text_[at_] == '/') {
      fail("the end, as uplinks need racks (2x2x2:1gbit/10gbit)");
    }
  }

  // "host2=200mbit"
  void exception(Spec& spec) {
    constexpr std::string_view kName = "host";
    if (text_.substr(at_, kName.size()) != kName) fail("a host such as host2");
    at_ += kName.size();
    std::size_t host = 0;
    const char* end = text_.data() + text_.size();
    const auto [next, error] = std::from_chars(text_.data() + at_, end, host);
    if (error != std::errc() || host >= spec.hosts.size())
      fail(fmt::format("the number of a host, 0 to {}", spec.hosts.size() - 1));
    at_ = static_cast<std::size_t>(next - text_.data());
    if (!accept('=')) fail("'=' and the speed that the host's link really has");
    spec.hosts[host].nic_bits = rate();
  }

  double rate() {
    const std::size_t start = at_;
    double value = 0;
    const char* end = text_.data() + text_.size();
    const auto [next, error] =
        std::from_chars(text_.data() + at_, end, value, std::chars_format::fixed);
    if (error != std::errc()) fail("a speed such as 100mbit or 1gbit");
    at_ = static_cast<std::size_t>(next - text_.data());
    value *= unit();
    if (!(value >= kMinBits && value <= kMaxBits)) {
      at_ = start;
      fail("a speed from 100kbit to 1000gbit");
    }
    return value;
  }

  double unit() {
    struct Unit {
      std::string_view name;
      double bits;
    };
    for (const Unit u : {Unit{"kbit", 1e3}, Unit{"mbit", 1e6}, Unit{"gbit", 1e9}}) {
      if (text_.substr(at_, u.name.size()) != u.name) continue;
      at_ += u.name.size();
      return u.bits;
    }
    fail("kbit, mbit or gbit");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

int Spec::ranks() const {
  int sum = 0;
  for (const HostSpec& host : hosts) sum += host.ranks;
  return sum;
}

double Spec::true_nic_bits(std::size_t host) const {
  return hosts[host].nic_bits > 0 ? hosts[host].nic_bits : nic_bits;
}

Spec parse_spec(std::string_view text) { return Parser(text).parse(); }

}  // namespace echelon::cluster
