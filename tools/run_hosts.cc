// SPDX-License-Identifier: Apache-2.0
#include "tools/run_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/base/error.h"

namespace echelon::run {
namespace {

constexpr int kMaxSlots = 65536;
constexpr int kMaxRanks = 65536;
constexpr std::string_view kSpace = " \t\r";

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

int parse_slots(std::string_view text, std::string_view entry) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kMaxSlots) {
    throw invalid(fmt::format("host '{}': expected a slot count from 1 to {}, found '{}'", entry,
                              kMaxSlots, text));
  }
  return slots;
}

// A name must not be taken for an option, or end up as anything but one word, at the remote shell.
void check_name(std::string_view name, std::string_view entry) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '@';
  };
  if (!name.empty() && name[0] != '-' && std::all_of(name.begin(), name.end(), allowed)) return;
  throw invalid(fmt::format("host '{}': expected a name or an IPv4 address, then :SLOTS", entry));
}

HostSlots parse_host(std::string_view entry) {
  const std::size_t colon = entry.find(':');
  const std::string_view name = entry.substr(0, colon);
  check_name(name, entry);
  const int slots =
      colon == std::string_view::npos ? 1 : parse_slots(entry.substr(colon + 1), entry);
  return {std::string(name), slots};
}

HostSlots parse_line(std::string_view line) {
  const std::size_t space = line.find_first_of(kSpace);
  if (space == std::string_view::npos) return parse_host(line);
  const std::string_view name = line.substr(0, space), rest = trim(line.substr(space));
  constexpr std::string_view kSlots = "slots=";
  check_name(name, line);
  if (rest.substr(0, kSlots.size()) != kSlots) {
    throw invalid(fmt::format("host '{}': expected slots=N after the name", line));
  }
  return {std::string(name), parse_slots(rest.substr(kSlots.size()), line)};
}

void add(std::vector<HostSlots>& hosts, HostSlots host) {
  const auto same =
      std::find_if(hosts.begin(), hosts.end(), [&](auto& h) { return h.name == host.name; });
  if (same == hosts.end()) return hosts.push_back(std::move(host));
  same->slots += host.slots;
  if (same->slots > kMaxSlots)
    throw invalid(fmt::format("host '{}': {} slots, expected at most {}", same->name, same->slots,
                              kMaxSlots));
}

// Calls f with each part of the text.
template <typename F>
void split(std::string_view text, char separator, F f) {
  for (;;) {
    const std::size_t end = text.find(separator);
    f(trim(text.substr(0, end)));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::vector<HostSlots> parse_host_list(std::string_view text) {
  std::vector<HostSlots> out;
  split(text, ',', [&](std::string_view entry) { add(out, parse_host(entry)); });
  return out;
}

std::vector<HostSlots> parse_hostfile(std::string_view text, std::string_view name) {
  std::vector<HostSlots> out;
  int number = 0;
  split(text, '\n', [&](std::string_view line) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) return;
    try {
      add(out, parse_line(line));
    } catch (const Error& e) {
      throw invalid(fmt::format("{} line {}: {}", name, number, e.what()));
    }
  });
  if (out.empty()) throw invalid(fmt::format("{}: no host in it", name));
  return out;
}

std::vector<std::vector<int>> place(const std::vector<HostSlots>& hosts, int n,
                                    Placement placement) {
  std::int64_t slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  if (n == 0) n = static_cast<int>(std::min<std::int64_t>(slots, kMaxRanks + 1));
  if (n > kMaxRanks) throw invalid(fmt::format("{} ranks, expected at most {}", n, kMaxRanks));
  if (n > slots) {
    const auto some = [](std::int64_t number, const char* what) {
      return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
    };
    throw invalid(fmt::format("{} do not fit the {} of {}", some(n, "rank"), some(slots, "slot"),
                              some(std::ssize(hosts), "host")));
  }
  std::vector<std::vector<int>> out(hosts.size());
  std::size_t host = 0;
  for (int rank = 0; rank < n; ++rank) {
    while (static_cast<int>(out[host].size()) >= hosts[host].slots) {
      host = (host + 1) % hosts.size();
    }
    out[host].push_back(rank);
    if (placement == Placement::kByHost) host = (host + 1) % hosts.size();
  }
  return out;
}

}  // namespace echelon::run
