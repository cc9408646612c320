// SPDX-License-Identifier: Apache-2.0
// The checks that compare hosts, on hosts made by hand.
#include "tools/doctor/survey.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/doctor/fixture.h"

namespace echelon::doctor {
namespace {

Report good_report() {
  Report report;
  report.versions = {"0.1.0", "6.1.0-18-amd64", "1.13.1", "2.8", "", ""};
  report.nics = {{"eth0", "ethernet", 1.25e9, "10.0.0.1"}};
  return report;
}

Survey three_hosts() {
  Survey survey;
  for (const char* name : {"a", "b", "c"}) survey.hosts.push_back({name, "", good_report(), {}});
  return survey;
}

std::vector<std::string> said_all(const std::vector<Finding>& findings) {
  std::vector<std::string> all;
  for (const Finding& finding : findings)
    all.push_back((finding.host.empty() ? "" : finding.host + " ") + said(finding));
  return all;
}

using Lines = std::vector<std::string>;

TEST(HostsCheck, NamesThoseThatCannotBeExamined) {
  Survey survey = three_hosts();
  survey.hosts[1].problem = "cannot be reached: ssh: no";
  EXPECT_EQ(
      said_all(check_hosts(survey)),
      (Lines{"a ok: was examined", "b broken: cannot be reached: ssh: no", "c ok: was examined"}));
}

TEST(VersionsCheck, OneLineWhenAllAreAlike) {
  EXPECT_EQ(said_all(check_versions(three_hosts())),
            Lines{"ok: echelon 0.1.0, ucx 1.13, kernel 6 on all"});
}

TEST(VersionsCheck, DifferencesAreJudgedByWhatTheyBreak) {
  Survey survey = three_hosts();
  survey.hosts[0].report.versions.echelon = "0.2.0";
  survey.hosts[1].report.versions.ucx = "1.14.0";
  survey.hosts[1].report.versions.kernel = "5.15.0";
  survey.hosts[2].report.versions.nccl = "2.18.3";
  EXPECT_EQ(
      said_all(check_versions(survey)),
      (Lines{"broken: echelon 0.1.0 on b, c; 0.2.0 on a", "costs: ucx 1.13 on a, c; 1.14 on b",
             "costs: kernel 5 on b; 6 on a, c", "costs: nccl none on a, b; 2.18 on c"}));
}

TEST(VersionsCheck, PatchesOfUcxAndKernelDoNotMatter) {
  Survey survey = three_hosts();
  survey.hosts[1].report.versions.ucx = "1.13.0";
  survey.hosts[1].report.versions.kernel = "6.6.1";
  EXPECT_EQ(said_all(check_versions(survey)),
            Lines{"ok: echelon 0.1.0, ucx 1.13, kernel 6 on all"});
}

TEST(VersionsCheck, HostsThatWereNotExaminedAreLeftOut) {
  Survey survey = three_hosts();
  survey.hosts[2] = {"c", "gone", {}, {}};
  EXPECT_EQ(check_versions(survey).size(), 1u);
  EXPECT_EQ(check_versions(survey)[0].verdict, Verdict::kOk);
  EXPECT_EQ(check_nic_match(survey)[0].verdict, Verdict::kOk);
}

TEST(NicMatch, SlowerAndFewerNicsCost) {
  Survey survey = three_hosts();
  EXPECT_EQ(said_all(check_nic_match(survey)), Lines{"ok: 10 Gbit/s ethernet on all"});
  survey.hosts[1].report.nics[0].bytes_per_second = 1.25e8;
  survey.hosts[2].report.nics.push_back({"eth1", "ethernet", 1.25e9, "10.0.1.1"});
  EXPECT_EQ(said_all(check_nic_match(survey)),
            Lines{"costs: 1 Gbit/s ethernet on b; 10 Gbit/s ethernet on a; 2 x 10 Gbit/s ethernet "
                  "on c"});
  survey.hosts[1].report.nics.clear();
  EXPECT_TRUE(contains(check_nic_match(survey)[0].found, "no NIC on b"));
}

Connection to(std::size_t from, std::size_t to, Outcome outcome) {
  return {from, to, "", {outcome, "10.0.0.2:99", "words"}};
}

TEST(Firewall, AllGoodIsOneLinePerHost) {
  Survey survey = three_hosts();
  survey.connections = {to(0, 0, Outcome::kConnected), to(0, 1, Outcome::kConnected),
                        to(1, 0, Outcome::kConnected)};
  EXPECT_EQ(said_all(check_firewall(survey)),
            (Lines{"a ok: TCP to 2 names and addresses of 2 hosts",
                   "b ok: TCP to 1 names and addresses of 1 host"}));
}

TEST(Firewall, EveryWayToFailHasItsWordsAndRemedy) {
  const std::pair<Outcome, const char*> ways[] = {
      {Outcome::kRefused, "b (10.0.0.2:99): refused"},
      {Outcome::kFiltered, "b (10.0.0.2:99): no answer"},
      {Outcome::kNoRoute, "b (10.0.0.2:99): no route"},
      {Outcome::kForbidden, "b (10.0.0.2:99): forbidden by this host"},
      {Outcome::kUnresolved, "b (words): the name has no address"},
      {Outcome::kFailed, "b (words): failed"}};
  std::set<std::string> remedies;
  for (const auto& [outcome, words] : ways) {
    Survey survey = three_hosts();
    survey.connections = {to(0, 0, Outcome::kConnected), to(0, 1, outcome)};
    EXPECT_EQ(said_all(check_firewall(survey)), Lines{std::string("a broken: TCP to ") + words});
    remedies.insert(check_firewall(survey)[0].remedy);
  }
  EXPECT_EQ(remedies.size(), std::size(ways)) << "each needs another one";
}

TEST(Firewall, ManyOfAKindAreCounted) {
  Survey survey;
  for (int i = 0; i < 20; ++i)
    survey.hosts.push_back({"h" + std::to_string(i), "", good_report(), {}});
  for (std::size_t i = 1; i < 20; ++i)
    survey.connections.push_back({0, i, "eth0", {Outcome::kFiltered, "x:1", ""}});
  const auto findings = check_firewall(survey);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].found,
            "TCP to h1 (eth0 x:1), h2 (eth0 x:1), h3 (eth0 x:1), h4 (eth0 x:1) and 15 more: no "
            "answer");
}

TEST(Clock, IsInformationOnly) {
  Survey survey = three_hosts();
  survey.hosts[0].clock = ClockOffset{0.0001, 0.0005};
  survey.hosts[1].clock = ClockOffset{0.02, 0.0005};
  survey.hosts[2].clock = ClockOffset{-90, 0.001};
  EXPECT_EQ(said_all(check_clock(survey)),
            (Lines{"a ok: within 0.5 ms of here", "b ok: 20 ms ahead of here (+-0.5 ms)",
                   "c ok: 90 s behind here (+-1 ms); no harm to Echelon, but logs of hosts "
                   "cannot be compared: run chrony or NTP"}));
}

TEST(AllFindings, ASingleHostIsComparedWithNothing) {
  Survey survey{{{"a", "", good_report(), {}}}, {}};
  EXPECT_TRUE(all_findings(survey).empty());
  survey.hosts[0].problem = "gone";
  ASSERT_EQ(all_findings(survey).size(), 1u);
  EXPECT_EQ(all_findings(survey)[0].check, "host");
}

TEST(AllFindings, AreNamedByHostAndCheck) {
  Survey survey = three_hosts();
  survey.hosts[1].report.findings = {ok("6.1")};
  survey.hosts[1].report.findings[0].check = "kernel";
  const auto all = all_findings(survey);
  ASSERT_EQ(all.size(), 1u + 3 + 1 + 1);  // and hosts, versions, nic-match
  EXPECT_EQ(all[0].host, "b");
  EXPECT_EQ(all[0].check, "kernel");
  EXPECT_EQ(all[1].check, "host");
  EXPECT_EQ(all[5].check, "nic-match");
}

}  // namespace
}  // namespace echelon::doctor
