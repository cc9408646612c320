// SPDX-License-Identifier: Apache-2.0
// `echelon doctor` as a user sees it, on this machine and with faults that a test may provoke.
#include "tests/unit/run/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "lib/fabric/formats.h"
#include "tests/support/ranks.h"
#include "tests/unit/doctor/fixture.h"
#include "tools/doctor/survey.h"

namespace echelon::test {
namespace {

using doctor::contains;
using Json = nlohmann::json;

// Hosts have long to answer, as this machine may be busy.
Result run_doctor(std::vector<std::string> args, const std::vector<std::string>& before = {}) {
  if (!std::ranges::count(args, "--check-timeout") && std::ranges::count(args, "-H"))
    args.insert(args.end(), {"--check-timeout", "90"});
  args.insert(args.begin(), {program(), "doctor"});
  args.insert(args.begin(), before.begin(), before.end());
  return run_program(args, "", std::chrono::seconds(100));
}

// Where the stand-ins for CUDA, NCCL and NVML are.
const std::string kStandins = std::string("LD_LIBRARY_PATH=") + std::getenv("ECHELON_STANDINS");

struct Line {
  std::string verdict, host, check, text;
};

// What `echelon doctor` printed, but for the last line.
std::vector<Line> parse(const std::string& out, bool several) {
  std::vector<Line> lines;
  std::istringstream in(out);
  std::string text;
  while (std::getline(in, text)) {
    Line line;
    std::istringstream words(text);
    words >> line.verdict;
    if (several) words >> line.host;
    words >> line.check >> std::ws;
    std::getline(words, line.text);
    lines.push_back(line);
  }
  if (!lines.empty()) lines.pop_back();
  return lines;
}

Line line_of(const std::vector<Line>& lines, const std::string& check,
             const std::string& host = "") {
  for (const Line& line : lines)
    if (line.check == check && (host.empty() || line.host == host)) return line;
  ADD_FAILURE() << "no line of " << check << " " << host;
  return {};
}

TEST(Doctor, HasOneWellFormedLinePerCheck) {
  const Result r = run_doctor({});
  EXPECT_EQ(r.err, "");
  const std::vector<Line> lines = parse(r.out, false);
  ASSERT_EQ(lines.size(), doctor::checks().size()) << r.out;
  bool broken = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    EXPECT_EQ(line.check, doctor::checks()[i].name);
    EXPECT_TRUE(line.verdict == "ok" || line.verdict == "costs" || line.verdict == "broken");
    EXPECT_FALSE(line.text.empty()) << line.check;
    // Found, why, remedy.
    EXPECT_EQ(contains(line.text, " -- "), line.verdict != "ok") << line.text;
    broken = broken || line.verdict == "broken";
  }
  EXPECT_EQ(r.code, broken ? 1 : 0);
  EXPECT_TRUE(contains(r.out, "\n1 host: ")) << r.out;
}

TEST(Doctor, JsonSaysTheSame) {
  const Result text = run_doctor({}), json = run_doctor({"--format", "json"});
  EXPECT_EQ(json.code, text.code);
  const Json document = Json::parse(json.out);
  const std::vector<Line> lines = parse(text.out, false);
  ASSERT_EQ(document.at("findings").size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(document["findings"][i].at("check"), lines[i].check);
    EXPECT_EQ(document["findings"][i].at("verdict"), lines[i].verdict) << lines[i].check;
  }
  EXPECT_EQ(document.at("hosts").size(), 1u);
  EXPECT_NE(document["hosts"][0].at("versions").at("kernel"), "");
}

TEST(Doctor, FindsTooFewDescriptors) {
  const Result r = run_doctor({}, {"prlimit", "--nofile=20"});
  if (r.code == 127) GTEST_SKIP() << "no prlimit here";
  EXPECT_EQ(r.code, 1) << r.out;
  const Line line = line_of(parse(r.out, false), "nofile");
  EXPECT_EQ(line.verdict, "broken");
  EXPECT_TRUE(contains(line.text, "20 (hard limit 20)")) << line.text;
}

// UCX ends processes that have no descriptors left; the doctor must live to tell.
TEST(Doctor, SurvivesAlmostNoDescriptors) {
  for (const char* limit : {"--nofile=8", "--nofile=5"}) {
    // The sanitizer of undefined behaviour needs some itself to tell good pointers from bad.
    if (test::kSanitized && limit == std::string_view("--nofile=5")) continue;
    const Result r = run_doctor({}, {"prlimit", limit});
    if (r.code == 127) GTEST_SKIP() << "no prlimit here";
    EXPECT_EQ(r.code, 1) << r.out << r.err;
    EXPECT_EQ(parse(r.out, false).size(), doctor::checks().size()) << r.out;
  }
}

TEST(Doctor, FindsAWrongSetting) {
  const Result r = run_doctor({}, {"env", "ECHELON_PROBE=perhaps"});
  EXPECT_EQ(r.code, 1);
  const Line line = line_of(parse(r.out, false), "settings");
  EXPECT_EQ(line.verdict, "broken");
  EXPECT_TRUE(contains(line.text, "ECHELON_PROBE is \"perhaps\", expected 0 or 1")) << line.text;
}

TEST(Doctor, FindsAnInterfaceThatIsNotThere) {
  const Result r = run_doctor({}, {"env", "ECHELON_INTERFACE=eth77"});
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(line_of(parse(r.out, false), "settings").text, "interface \"eth77\""));
}

TEST(Doctor, FindsANicThatIsNotThere) {
  const Result r = run_doctor({}, {"env", "ECHELON_NICS=eth77"});
  EXPECT_EQ(r.code, 1);
  const Line line = line_of(parse(r.out, false), "settings");
  EXPECT_EQ(line.verdict, "broken");
  EXPECT_TRUE(contains(line.text, "ECHELON_NICS names \"eth77\"; this host has ")) << line.text;
}

TEST(Doctor, ListsWhatIsSetButNotTheSecret) {
  const std::vector<std::string> plain = {"env", "-i", "ECHELON_SECRET=0123", "ECHELON_RANK=0",
                                          "UCX_TLS=tcp"};
  const Line set = line_of(parse(run_doctor({}, plain).out, false), "settings");
  EXPECT_EQ(set.text, "ECHELON_RANK=0 ECHELON_SECRET=(secret) UCX_TLS=tcp");
  const Line slip =
      line_of(parse(run_doctor({}, {"env", "-i", "ECHELON_ALGORITM=ring"}).out, false), "settings");
  EXPECT_EQ(slip.verdict, "costs");
  EXPECT_TRUE(contains(slip.text, "ECHELON_ALGORITM (is ECHELON_ALGORITHM meant?)")) << slip.text;
}

TEST(Doctor, FindsABadFabricFile) {
  const Result r = run_doctor({}, {"env", "ECHELON_FABRIC=no-such-file.toml"});
  EXPECT_EQ(r.code, 1);
  const Line line = line_of(parse(r.out, false), "fabric");
  EXPECT_EQ(line.verdict, "broken");
  EXPECT_TRUE(contains(line.text, "ECHELON_FABRIC: no-such-file.toml")) << line.text;
}

TEST(Doctor, FindsCudaAndNcclByLoadingThem) {
  const std::vector<Line> lines = parse(run_doctor({}, {"env", kStandins}).out, false);
  EXPECT_TRUE(contains(line_of(lines, "cuda").text, "CUDA 12.4, ")) << line_of(lines, "cuda").text;
  EXPECT_EQ(line_of(lines, "nccl").text, "2.23.4");
}

TEST(Doctor, SaysWhyCudaAndNcclCannotBeUsed) {
  const std::vector<Line> lines = parse(
      run_doctor({}, {"env", kStandins, "STANDIN_CUDA_VERSION=10020", "STANDIN_NCCL_VERSION=21705"})
          .out,
      false);
  EXPECT_TRUE(contains(line_of(lines, "cuda").text,
                       "libcuda.so.1 is for CUDA 10.2, 11.0 or newer is needed"));
  EXPECT_EQ(line_of(lines, "nccl").text,
            "none: libnccl.so.2 is NCCL 2.17.5, 2.18.0 or newer is needed");
  const Result named = run_doctor({}, {"env", kStandins, "ECHELON_NCCL=/none.so"});
  EXPECT_TRUE(line_of(parse(named.out, false), "nccl").text.starts_with("none: /none.so: "))
      << named.out;
}

TEST(Doctor, FindsNvmlByAskingIt) {
  const auto nvml = [](std::vector<std::string> environment) {
    environment.insert(environment.begin(), {"env", kStandins});
    return line_of(parse(run_doctor({}, environment).out, false), "nvml");
  };
  EXPECT_EQ(nvml({"STANDIN_NVML_GPUS=2", "STANDIN_NVML_LINKS=0-1:4"}).text,
            "driver 550.54.15, NVLinks between 1 pair");
  const Line absent = nvml({"STANDIN_NVML_FAIL=nvmlInit_v2:1=9"});
  EXPECT_TRUE(absent.text.ends_with("nvmlInit_v2: Driver Not Loaded (9)")) << absent.text;
}

TEST(Topo, ShowsGpusAndTheirLinksInAllFormats) {
  const auto topo = [](const std::string& format) {
    return run_program({"env", kStandins, "STANDIN_NVML_GPUS=2", "STANDIN_NVML_LINKS=0-1:4",
                        "STANDIN_NVML_FABRIC=7:2:3", program(), "topo", "--format", format})
        .out;
  };
  const std::string text = topo("text");
  EXPECT_TRUE(contains(text, "GPU-1, ")) << text;
  EXPECT_TRUE(contains(text, "nvlinks: 4 to gpus 100 GB/s (device)")) << text;
  EXPECT_TRUE(contains(text, "gpu links: as NVML tells, driver 550.54.15\n")) << text;
  for (const char* format : {"json", "toml"}) {
    const std::string out = topo(format);
    const Fabric fabric = expand(parse_fabric_file(out, format));
    const Host& host = fabric.hosts.at(0);
    const auto at = [&](const char* uuid) {
      return std::ranges::find(host.gpus, uuid, &Gpu::uuid) - host.gpus.begin();
    };
    const int a = static_cast<int>(at("GPU-0")), b = static_cast<int>(at("GPU-1"));
    ASSERT_LT(std::max(a, b), static_cast<int>(host.gpus.size())) << out;
    EXPECT_EQ(host.gpus[b].fabric_uuid, "07000000-0000-0000-0000-000000000000");
    EXPECT_EQ(host.gpus[b].clique, 2);
    EXPECT_EQ(nvlink_bytes_per_second(host, a, b), 100e9);
  }
}

TEST(Topo, SaysWhyLinksOfGpusAreNotKnown) {
  const auto out = [](const std::string& setting) {
    return run_program({"env", setting, "STANDIN_NVML_FAIL=nvmlInit_v2:1=9", program(), "topo"})
        .out;
  };
  EXPECT_TRUE(
      contains(out(kStandins), "\ngpu links: none known: nvmlInit_v2: Driver Not Loaded (9)\n"));
  const std::string without = out("LD_LIBRARY_PATH=");
  const bool real = contains(without, "\ngpu links: as NVML tells");
  EXPECT_NE(contains(without, "\ngpu links: none known: libnvidia-ml.so.1: "), real) << without;
}

TEST(Topo, EndsWithTheLibrariesForGpus) {
  const auto last_line = [](std::vector<std::string> before) {
    before.insert(before.end(), {program(), "topo"});
    const std::string out = run_program(before).out;
    return out.substr(out.rfind('\n', out.size() - 2) + 1);
  };
  EXPECT_EQ(last_line({"env", kStandins}), "gpu buffers: CUDA 12.4, NCCL 2.23.4\n");
  EXPECT_EQ(last_line({"env", kStandins, "STANDIN_CUDA_VERSION=10020"}),
            "gpu buffers: none: libcuda.so.1 is for CUDA 10.2, 11.0 or newer is needed\n");
  EXPECT_TRUE(contains(last_line({"env", kStandins, "ECHELON_NCCL=/none.so"}), "NCCL /none.so: "));
}

TEST(Doctor, TwoNamesOfThisMachineReachEachOther) {
  const Result r = run_doctor({"-H", "localhost:1,127.0.0.1:1"});
  const std::vector<Line> lines = parse(r.out, true);
  EXPECT_EQ(line_of(lines, "host").verdict, "ok");
  EXPECT_EQ(line_of(lines, "host").host, "all");
  EXPECT_EQ(line_of(lines, "versions").verdict, "ok");
  EXPECT_EQ(line_of(lines, "nic-match").verdict, "ok");
  EXPECT_EQ(line_of(lines, "firewall").verdict, "ok") << r.out;
  const Line clock = line_of(lines, "clock");
  EXPECT_EQ(clock.verdict, "ok");
  // One line where both are as near, as far as its digits tell.
  EXPECT_TRUE(clock.host == "localhost" || clock.host == "all") << r.out;
  EXPECT_TRUE(contains(r.out, "\n2 hosts: ")) << r.out;
}

// What a login message says must not matter, nor that the names mean nothing to the hosts.
TEST(Doctor, HostsAreReachedAsForARunAndBadNamesAreFound) {
  const TempScript shell(
      "#!/bin/sh\necho \"{} Welcome to $1\"\nshift\nexec env -i PATH=/usr/bin:/bin sh -c \"$*\"\n");
  const Result r = run_doctor({"-H", "a.invalid,me@b.invalid", "--ssh-command", shell.path()});
  EXPECT_EQ(r.code, 1);
  const std::vector<Line> lines = parse(r.out, true);
  EXPECT_EQ(line_of(lines, "host").verdict, "ok") << r.out << r.err;
  const Line line = line_of(lines, "firewall");
  EXPECT_EQ(line.verdict, "broken");
  EXPECT_TRUE(contains(line.text, "cannot resolve host \"b.invalid\"")) << line.text;
  EXPECT_TRUE(contains(line.text, "/etc/hosts")) << line.text;
  EXPECT_EQ(line.host, "all") << "both find the same";
}

TEST(Doctor, AnUnreachableHostDoesNotHideTheOthers) {
  const TempScript refusing("#!/bin/sh\necho 'ssh: connect to host '$1': refused' >&2\nexit 255\n");
  const Result r = run_doctor({"-H", "localhost,b.invalid", "--ssh-command", refusing.path()});
  EXPECT_EQ(r.code, 1);
  const std::vector<Line> lines = parse(r.out, true);
  EXPECT_EQ(line_of(lines, "kernel", "localhost").verdict, "ok") << r.out;
  const Line line = line_of(lines, "host", "b.invalid");
  EXPECT_EQ(line.verdict, "broken");
  EXPECT_TRUE(contains(line.text, "cannot be reached: ssh: connect to host b.invalid: refused"));
}

TEST(Doctor, ASilentHostIsGivenUp) {
  const TempScript silent("#!/bin/sh\nexec sleep 100\n");
  const Result r =
      run_doctor({"-H", "b.invalid", "--ssh-command", silent.path(), "--check-timeout", "0.3"});
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.out, "no answer within 0.3 s")) << r.out;
}

// It answers until it is asked what time it is. Every question has the time that the user gives.
TEST(Doctor, AHostThatFallsSilentIsGivenUp) {
  const TempScript mute(
      "#!/usr/bin/env python3\n"
      "import os, subprocess, sys\n"
      "agent = subprocess.Popen(['sh', '-c', ' '.join(sys.argv[2:])], stdout=subprocess.PIPE)\n"
      "said = b''\n"
      "while part := os.read(agent.stdout.fileno(), 65536):\n"
      "  if b'\"report\":' in said and said.endswith(b'\\n'): continue\n"
      "  said += part\n"
      "  os.write(1, part)\n");
  const Result r =
      run_doctor({"-H", "b.invalid", "--ssh-command", mute.path(), "--check-timeout", "3"});
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.out, "no answer within 3 s")) << r.out;
}

TEST(Doctor, OtherVersionsAreNamed) {
  const TempScript other("#!/bin/sh\necho echelon-agent 9.8.7\ncat\n");
  const Result r = run_doctor({"-H", "b.invalid", "--ssh-command", other.path()});
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.out, "echelon 9.8.7 is installed there, but")) << r.out;
}

TEST(Doctor, WrongUsageIsTwo) {
  const std::vector<std::string> wrong[] = {{"--format", "xml"},
                                            {"-H", "a;b"},
                                            {"-H", "a", "--hostfile", "/etc/hostname"},
                                            {"--hostfile", "no-such-file"},
                                            {"more"}};
  for (const auto& args : wrong) {
    const Result r = run_doctor(args);
    EXPECT_EQ(r.code, 2) << args.back();
    EXPECT_EQ(lines_of(r.err).size(), 1u) << r.err;
    EXPECT_EQ(r.out, "");
  }
}

TEST(DoctorAgent, AnswersNonsenseWithAnError) {
  const std::string questions =
      "nonsense\n{\"ask\": 7}\n{\"ask\": \"dance\"}\n{\"ask\": \"reach\"}\n{\"ask\": \"time\"}\n";
  const Result r = run_program({program(), "doctor", "--agent"}, questions);
  EXPECT_EQ(r.code, 0);
  std::istringstream lines(r.out);
  std::string line;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_TRUE(Json::parse(line).contains("error")) << line;
  }
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_GT(Json::parse(line).at("time").get<double>(), 1.7e9);
  EXPECT_FALSE(std::getline(lines, line));
}

}  // namespace
}  // namespace echelon::test
