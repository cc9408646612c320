// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "echelon/echelon.h"
#include "lib/base/error.h"
#include "lib/base/join.h"

namespace echelon::doctor {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int kIndent = 2;

// Findings that are equal but for the host.
struct Line {
  Finding finding;
  std::vector<std::string> hosts;
};

std::vector<Line> lines_of(const std::vector<Finding>& findings) {
  std::vector<Line> lines;
  for (const Finding& finding : findings) {
    Finding nameless = finding;
    nameless.host.clear();
    const auto same = std::ranges::find(lines, nameless, &Line::finding);
    if (same == lines.end()) {
      lines.push_back({nameless, {}});
      if (!finding.host.empty()) lines.back().hosts.push_back(finding.host);
    } else if (!finding.host.empty()) {
      same->hosts.push_back(finding.host);
    }
  }
  // All that one check says stands together, hosts one after the other.
  std::vector<std::string> order;
  for (const Line& line : lines)
    if (std::ranges::find(order, line.finding.check) == order.end())
      order.push_back(line.finding.check);
  std::ranges::stable_sort(lines, {}, [&](const Line& line) {
    return std::ranges::find(order, line.finding.check) - order.begin();
  });
  return lines;
}

std::string names(const Line& line, std::size_t hosts) {
  if (line.hosts.empty() || line.hosts.size() == hosts) return "all";
  return joined(line.hosts, ",");
}

// Texts come from other machines and from the environment; a terminal must not obey them.
std::string harmless(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string sentence(const Finding& finding) {
  std::string out = finding.found;
  if (!finding.why.empty()) out += " -- " + finding.why;
  if (!finding.remedy.empty()) out += " -- " + finding.remedy;
  return harmless(out);
}

struct Count {
  std::size_t of[3] = {};
  std::size_t operator[](Verdict verdict) const { return of[static_cast<int>(verdict)]; }
};

Count count_of(const std::vector<Finding>& findings) {
  Count count;
  for (const Finding& finding : findings) ++count.of[static_cast<int>(finding.verdict)];
  return count;
}

template <typename Document>
Document versions_document(const Versions& v) {
  return {{"echelon", v.echelon}, {"kernel", v.kernel}, {"ucx", v.ucx},
          {"hwloc", v.hwloc},     {"nccl", v.nccl},     {"cuda", v.cuda}};
}

template <typename Document>
Document nics_document(const std::vector<NicFact>& nics) {
  Document list = Document::array();
  for (const NicFact& nic : nics) {
    list.push_back({{"name", nic.name},
                    {"kind", nic.kind},
                    {"bytes_per_second", nic.bytes_per_second},
                    {"address", nic.address}});
  }
  return list;
}

template <typename Document>
Document finding_document(const Finding& f) {
  return {{"host", f.host},   {"check", f.check}, {"verdict", name(f.verdict)},
          {"found", f.found}, {"why", f.why},     {"remedy", f.remedy}};
}

Finding finding_from(const Json& document) {
  Finding finding;
  const std::string verdict = document.at("verdict");
  for (const Verdict v : {Verdict::kOk, Verdict::kCosts, Verdict::kBroken})
    if (verdict == name(v)) finding.verdict = v;
  if (verdict != name(finding.verdict))
    throw invalid(fmt::format("a host's report: verdict \"{}\"", verdict));
  document.at("found").get_to(finding.found);
  document.at("why").get_to(finding.why);
  document.at("remedy").get_to(finding.remedy);
  document.at("check").get_to(finding.check);
  return finding;
}

}  // namespace

std::string to_text(const Survey& survey) {
  const std::vector<Finding> findings = all_findings(survey);
  const std::vector<Line> lines = lines_of(findings);
  const bool several = survey.hosts.size() > 1;
  std::size_t host_width = 0, check_width = 0;
  for (const Line& line : lines) {
    host_width = std::max(host_width, names(line, survey.hosts.size()).size());
    check_width = std::max(check_width, line.finding.check.size());
  }
  std::string out;
  for (const Line& line : lines) {
    const Finding& f = line.finding;
    out += fmt::format("{:<6}  ", name(f.verdict));
    if (several) out += fmt::format("{:<{}}  ", names(line, survey.hosts.size()), host_width);
    out += fmt::format("{:<{}}  {}\n", harmless(f.check), check_width, sentence(f));
  }
  const Count count = count_of(findings);
  return out + fmt::format("{}: {} ok, {} costs, {} broken\n", counted(survey.hosts.size(), "host"),
                           count[Verdict::kOk], count[Verdict::kCosts], count[Verdict::kBroken]);
}

std::string to_json(const Survey& survey) {
  const std::vector<Finding> findings = all_findings(survey);
  OrderedJson hosts = OrderedJson::array(), list = OrderedJson::array();
  for (const HostSurvey& host : survey.hosts) {
    hosts.push_back({{"host", host.name},
                     {"versions", versions_document<OrderedJson>(host.report.versions)},
                     {"nics", nics_document<OrderedJson>(host.report.nics)}});
  }
  for (const Finding& finding : findings) list.push_back(finding_document<OrderedJson>(finding));
  const Count count = count_of(findings);
  const OrderedJson out = {
      {"echelon", fmt::format("{}.{}.{}", ECH_VERSION_MAJOR, ECH_VERSION_MINOR, ECH_VERSION_PATCH)},
      {"hosts", hosts},
      {"findings", list},
      {"ok", count[Verdict::kOk]},
      {"costs", count[Verdict::kCosts]},
      {"broken", count[Verdict::kBroken]}};
  return out.dump(kIndent, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

bool is_broken(const Survey& survey) {
  return count_of(all_findings(survey))[Verdict::kBroken] > 0;
}

Json to_document(const Report& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings)
    findings.push_back(finding_document<Json>(finding));
  return {{"versions", versions_document<Json>(report.versions)},
          {"nics", nics_document<Json>(report.nics)},
          {"findings", findings}};
}

Report report_from(const Json& document) {
  Report report;
  try {
    const Json& versions = document.at("versions");
    Versions& v = report.versions;
    versions.at("echelon").get_to(v.echelon);
    versions.at("kernel").get_to(v.kernel);
    versions.at("ucx").get_to(v.ucx);
    versions.at("hwloc").get_to(v.hwloc);
    versions.at("nccl").get_to(v.nccl);
    versions.at("cuda").get_to(v.cuda);
    for (const Json& nic : document.at("nics")) {
      report.nics.push_back({nic.at("name"), nic.at("kind"),
                             nic.at("bytes_per_second").get<double>(), nic.at("address")});
    }
    for (const Json& finding : document.at("findings"))
      report.findings.push_back(finding_from(finding));
  } catch (const Json::exception& e) {
    throw invalid(fmt::format("a host's report: {}", e.what()));
  }
  return report;
}

}  // namespace echelon::doctor
