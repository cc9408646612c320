// SPDX-License-Identifier: Apache-2.0
// How findings are shown, and how a report travels.
#include "tools/doctor/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/error.h"
#include "tests/unit/doctor/fixture.h"

namespace echelon::doctor {
namespace {

using Json = nlohmann::json;

Finding named(Finding finding, const std::string& check) {
  finding.check = check;
  return finding;
}

Report small_report(const std::string& kernel) {
  Report report;
  report.versions = {"0.1.0", kernel, "1.13.1", "2.8", "", ""};
  report.nics = {{"eth0", "ethernet", 1.25e9, "10.0.0.1"}};
  report.findings = {named(ok(kernel), "kernel"), named(ok("4 cpus"), "cpus")};
  return report;
}

Survey two_hosts() {
  return {{{"a", "", small_report("6.1"), {}}, {"bb", "", small_report("6.2"), {}}}, {}};
}

TEST(Text, AMachineByItselfIsNotNamed) {
  Survey survey{{{"a", "", small_report("6.1"), {}}}, {}};
  survey.hosts[0].report.findings[1] =
      named(costs("1 cpu", "it is slow", "buy a larger one"), "cpus");
  EXPECT_EQ(to_text(survey),
            "ok      kernel  6.1\n"
            "costs   cpus    1 cpu -- it is slow -- buy a larger one\n"
            "1 host: 1 ok, 1 costs, 0 broken\n");
  EXPECT_FALSE(is_broken(survey));
}

TEST(Text, HostsThatSayTheSameShareALine) {
  Survey survey = two_hosts();
  survey.hosts.push_back({"c", "", small_report("6.2"), {}});
  EXPECT_EQ(to_text(survey),
            "ok      a     kernel     6.1\n"
            "ok      bb,c  kernel     6.2\n"
            "ok      all   cpus       4 cpus\n"
            "ok      all   host       was examined\n"
            "ok      all   versions   echelon 0.1.0, ucx 1.13, kernel 6 on all\n"
            "ok      all   nic-match  10 Gbit/s ethernet on all\n"
            "3 hosts: 11 ok, 0 costs, 0 broken\n");
}

TEST(Text, OthersCannotCommandTheTerminal) {
  Survey survey{{{"a", "", small_report("6.1\n\x1b[2Jx"), {}}}, {}};
  EXPECT_TRUE(contains(to_text(survey), "kernel  6.1??[2Jx\n"));
}

TEST(JsonDocument, HasEverythingByName) {
  Survey survey = two_hosts();
  survey.hosts[1].problem = "gone";
  const Json document = Json::parse(to_json(survey));
  EXPECT_EQ(document.at("hosts").at(0).at("host"), "a");
  EXPECT_EQ(document.at("hosts").at(0).at("versions").at("ucx"), "1.13.1");
  EXPECT_EQ(document.at("hosts").at(0).at("nics").at(0).at("bytes_per_second"), 1.25e9);
  EXPECT_EQ(document.at("broken"), 1);
  EXPECT_EQ(document.at("costs"), 0);
  const Json& findings = document.at("findings");
  EXPECT_EQ(document.at("ok").get<std::size_t>() + 1, findings.size());
  const auto gone = std::ranges::find_if(
      findings, [](const Json& finding) { return finding.at("verdict") == "broken"; });
  ASSERT_NE(gone, findings.end());
  EXPECT_EQ(gone->at("host"), "bb");
  EXPECT_EQ(gone->at("check"), "host");
  EXPECT_EQ(gone->at("found"), "gone");
  EXPECT_NE(gone->at("remedy"), "");
  EXPECT_TRUE(is_broken(survey));
}

TEST(JsonDocument, AnyBytesCanBeWritten) {
  Survey survey{{{"a", "", small_report("\xff\xfe"), {}}}, {}};
  EXPECT_TRUE(Json::accept(to_json(survey)));
}

TEST(TravellingReport, ArrivesAsItLeft) {
  Report report = small_report("6.1");
  report.findings.push_back(named(broken("x", "y", "z"), "memfd"));
  EXPECT_EQ(report_from(Json::parse(to_document(report).dump())), report);
}

// Every value of a good report in turn replaced by one of another kind.
TEST(TravellingReport, NonsenseIsAnError) {
  const Json good = to_document(small_report("6.1"));
  const Json values = good.flatten();
  int bent_values = 0;
  for (const auto& [where, value] : values.items()) {
    if (where.ends_with("/host")) continue;  // the one who asks knows it
    for (const Json& other : {Json("seven"), Json(7), Json(nullptr), Json(Json::array({1}))}) {
      const bool fits = other.type() == value.type() || (other.is_number() && value.is_number());
      if (fits && !where.ends_with("/verdict")) continue;
      Json bent = good;
      bent[Json::json_pointer(where)] = other;
      EXPECT_THROW(report_from(bent), Error) << where << " " << other;
      ++bent_values;
    }
  }
  EXPECT_GT(bent_values, 40);
  for (const char* text : {"{}", "[]", "7", "null", R"({"versions": {}})"})
    EXPECT_THROW(report_from(Json::parse(text)), Error) << text;
}

}  // namespace
}  // namespace echelon::doctor
