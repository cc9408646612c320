// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/survey.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "lib/base/join.h"
#include "tools/doctor/checks.h"

namespace echelon::doctor {
namespace {

constexpr ComparingCheck kChecks[] = {
    {"host", check_hosts},        {"versions", check_versions}, {"nic-match", check_nic_match},
    {"firewall", check_firewall}, {"clock", check_clock},
};

constexpr double kLargeOffset = 1;           // s
constexpr std::size_t kMostConnections = 4;  // that a line lists

// The hosts that were examined, by what `key` says of them.
std::map<std::string, std::vector<std::string>> hosts_by(
    const Survey& survey, const std::function<std::string(const Report&)>& key) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const HostSurvey& host : survey.hosts)
    if (host.problem.empty()) groups[key(host.report)].push_back(host.name);
  return groups;
}

// "1.13.1 on a, b; 1.14.0 on c"
std::string text_of(const std::map<std::string, std::vector<std::string>>& groups) {
  std::string out;
  for (const auto& [value, hosts] : groups) {
    out += fmt::format("{}{} on {}", out.empty() ? "" : "; ", value.empty() ? "none" : value,
                       joined(hosts, ", "));
  }
  return out;
}

// "1.13.1" to "1.13"
std::string release(const std::string& version, int parts) {
  std::size_t end = 0;
  for (; parts > 0 && end != std::string::npos; --parts)
    end = version.find('.', end == 0 ? 0 : end + 1);
  return version.substr(0, end);
}

struct Compared {
  const char* name;
  std::string Versions::*version;
  int parts;  // of the version that must be alike
  Finding (*judge)(std::string, std::string, std::string);
  const char* why;
  const char* remedy;
};

constexpr Compared kCompared[] = {
    {"echelon", &Versions::echelon, 3, broken, "ranks of different versions refuse each other",
     "install one version on all hosts"},
    {"ucx", &Versions::ucx, 2, costs,
     "different releases choose different protocols, and not all of them understand each other",
     "install one version on all hosts"},
    {"kernel", &Versions::kernel, 1, costs, "one host's network may be slower than the others'",
     "run one kernel on all hosts"},
    {"nccl", &Versions::nccl, 2, costs, "programs that use NCCL refuse to connect",
     "install one version on all hosts"},
    {"cuda", &Versions::cuda, 1, costs, "programs built for the newer driver fail on the older",
     "install one driver on all hosts"},
};

// What a host can send at once: "2 x 10 Gbit/s ethernet".
std::string network_of(const Report& report) {
  std::map<std::string, int> kinds;
  for (const NicFact& nic : report.nics)
    ++kinds[fmt::format("{} {}", speed_text(nic.bytes_per_second), nic.kind)];
  std::string out;
  for (const auto& [kind, count] : kinds) {
    out += out.empty() ? "" : " + ";
    out += count > 1 ? fmt::format("{} x {}", count, kind) : kind;
  }
  return out.empty() ? "no NIC" : out;
}

struct Remedy {
  const char* words;
  const char* remedy;
};

Remedy remedy_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRefused:
      return {"refused",
              "see that the name leads to the right machine on every host, and that no firewall "
              "rejects: nft list ruleset, iptables -S"};
    case Outcome::kFiltered:
      return {"no answer",
              "a firewall drops packets, on one of the hosts or between them: accept all TCP "
              "between the hosts (nft list ruleset, iptables -S; security groups of a cloud)"};
    case Outcome::kNoRoute:
      return {"no route", "see ip route, the address and the netmask on both hosts"};
    case Outcome::kForbidden:
      return {"forbidden by this host", "see this host's own rules: nft list ruleset, ip route"};
    case Outcome::kUnresolved:
      return {"the name has no address", "put the name into /etc/hosts or DNS on every host"};
    default:
      return {"failed", "see the system's words"};
  }
}

std::string destination(const Survey& survey, const Connection& connection) {
  const std::string& host = survey.hosts[connection.to].name;
  const Reached& reached = connection.reached;
  std::string where = connection.via.empty() ? "" : connection.via + " ";
  where += reached.address;
  if (reached.outcome == Outcome::kUnresolved || reached.outcome == Outcome::kFailed)
    where = reached.detail;
  return where.empty() ? host : fmt::format("{} ({})", host, where);
}

// One line for all that fail in the same way from one host.
Finding blocked(const Survey& survey, const std::vector<const Connection*>& failed) {
  std::vector<std::string> list;
  for (const Connection* connection : failed) {
    if (list.size() == kMostConnections) break;
    list.push_back(destination(survey, *connection));
  }
  const std::size_t more = failed.size() - list.size();
  const Remedy remedy = remedy_of(failed[0]->reached.outcome);
  Finding finding =
      broken(fmt::format("TCP to {}{}: {}", joined(list, ", "),
                         more > 0 ? fmt::format(" and {} more", more) : "", remedy.words),
             "ranks connect to each other on ports that the system chooses", remedy.remedy);
  finding.host = survey.hosts[failed[0]->from].name;
  return finding;
}

Finding all_connected(const Survey& survey, const std::vector<const Connection*>& tried) {
  std::set<std::size_t> hosts;
  for (const Connection* connection : tried) hosts.insert(connection->to);
  Finding finding = ok(fmt::format("TCP to {} names and addresses of {}", tried.size(),
                                   counted(hosts.size(), "host")));
  finding.host = survey.hosts[tried[0]->from].name;
  return finding;
}

std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

}  // namespace

std::span<const ComparingCheck> comparing_checks() { return kChecks; }

std::vector<Finding> all_findings(const Survey& survey) {
  std::vector<Finding> all;
  for (const HostSurvey& host : survey.hosts) {
    for (Finding finding : host.report.findings) {
      finding.host = host.name;
      all.push_back(std::move(finding));
    }
  }
  // A single host that was examined has nothing to be compared with.
  if (survey.hosts.size() == 1 && survey.hosts[0].problem.empty()) return all;
  for (const ComparingCheck& check : comparing_checks()) {
    for (Finding finding : check.judge(survey)) {
      finding.check = check.name;
      all.push_back(std::move(finding));
    }
  }
  return all;
}

std::vector<Finding> check_hosts(const Survey& survey) {
  std::vector<Finding> all;
  for (const HostSurvey& host : survey.hosts) {
    all.push_back(host.problem.empty()
                      ? ok("was examined")
                      : broken(host.problem, "no rank can be started there",
                               "make it answer, or leave it out of -H; docs/run.md says how hosts "
                               "are reached"));
    all.back().host = host.name;
  }
  return all;
}

std::vector<Finding> check_versions(const Survey& survey) {
  std::vector<Finding> all;
  std::string alike;
  for (const Compared& compared : kCompared) {
    const auto groups = hosts_by(survey, [&](const Report& report) {
      return release(report.versions.*compared.version, compared.parts);
    });
    if (groups.size() > 1) {
      all.push_back(compared.judge(fmt::format("{} {}", compared.name, text_of(groups)),
                                   compared.why, compared.remedy));
    } else if (groups.size() == 1 && !groups.begin()->first.empty()) {
      alike +=
          fmt::format("{}{} {}", alike.empty() ? "" : ", ", compared.name, groups.begin()->first);
    }
  }
  if (all.empty() && !alike.empty()) all.push_back(ok(alike + " on all"));
  return all;
}

std::vector<Finding> check_nic_match(const Survey& survey) {
  const auto groups = hosts_by(survey, network_of);
  if (groups.empty()) return {};
  if (groups.size() == 1) return {ok(groups.begin()->first + " on all")};
  return {costs(text_of(groups), "every collective over all hosts waits for the slowest one",
                "see cable, port and driver of the slower hosts (ethtool), or leave them out")};
}

std::vector<Finding> check_firewall(const Survey& survey) {
  using Tried = std::vector<const Connection*>;
  std::map<std::size_t, std::map<Outcome, Tried>> by_host;
  for (const Connection& c : survey.connections) by_host[c.from][c.reached.outcome].push_back(&c);
  std::vector<Finding> all;
  for (const auto& [from, by_outcome] : by_host) {
    for (const auto& [outcome, tried] : by_outcome) {
      const bool good = outcome == Outcome::kConnected;
      if (!good) all.push_back(blocked(survey, tried));
      if (good && by_outcome.size() == 1) all.push_back(all_connected(survey, tried));
    }
  }
  return all;
}

std::vector<Finding> check_clock(const Survey& survey) {
  std::vector<Finding> all;
  for (const HostSurvey& host : survey.hosts) {
    if (!host.clock) continue;
    const auto [seconds, uncertainty] = *host.clock;
    std::string found =
        std::abs(seconds) <= uncertainty
            ? fmt::format("within {} of here", time_text(uncertainty))
            : fmt::format("{} {} here (+-{})", time_text(std::abs(seconds)),
                          seconds > 0 ? "ahead of" : "behind", time_text(uncertainty));
    if (std::abs(seconds) - uncertainty > kLargeOffset)
      found += "; no harm to Echelon, but logs of hosts cannot be compared: run chrony or NTP";
    all.push_back(ok(found));
    all.back().host = host.name;
  }
  return all;
}

}  // namespace echelon::doctor
