// SPDX-License-Identifier: Apache-2.0
// The checks of versions and settings, on hosts made by hand, and the page that lists all checks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "lib/base/file.h"
#include "tests/unit/doctor/fixture.h"
#include "tools/doctor/survey.h"

namespace echelon::doctor {
namespace {

std::string own_version() {
  return fmt::format("{}.{}.{}", ECH_VERSION_MAJOR, ECH_VERSION_MINOR, ECH_VERSION_PATCH);
}

TEST(EchelonVersion, ProgramAndLibraryMustAgree) {
  FakeHost host;
  host.probes().library = own_version();
  EXPECT_EQ(said(check_echelon(host.view)), "ok: " + own_version());
  host.probes().library = "9.8.7";
  EXPECT_EQ(said(check_echelon(host.view)),
            fmt::format("broken: program {}, library 9.8.7", own_version()));
}

TEST(Settings, AreListedAndWrongOnesBreak) {
  FakeHost host;
  EXPECT_EQ(said(check_settings(host.view)), "ok: no ECHELON_* or UCX_* variable is set");
  host.probes().variables = {{"ECHELON_PROBE", "1"}, {"UCX_TLS", "tcp"}};
  EXPECT_EQ(said(check_settings(host.view)), "ok: ECHELON_PROBE=1 UCX_TLS=tcp");
  host.probes().unknown = {{"ECHELON_ALGORITM", "ECHELON_ALGORITHM"}, {"ECHELON_X", ""}};
  EXPECT_EQ(said(check_settings(host.view)),
            "costs: set but not known: ECHELON_ALGORITM (is ECHELON_ALGORITHM meant?), ECHELON_X");
  host.probes().options_error = "ECHELON_PROBE is \"z\", expected 0 or 1";
  EXPECT_EQ(said(check_settings(host.view)), "broken: ECHELON_PROBE is \"z\", expected 0 or 1");
}

TEST(Hwloc, ABuildWithoutItCosts) {
  FakeHost host;
  EXPECT_EQ(said(check_hwloc(host.view)), "ok: 2.8");
  host.probes().hwloc.clear();
  EXPECT_EQ(said(check_hwloc(host.view)), "costs: not in this build");
}

TEST(Cuda, TheDriverTellsItsVersionInSeveralForms) {
  FakeHost host;
  const std::string file = "/proc/driver/nvidia/version";
  host.put(file,
           "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC "
           "2023\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
  EXPECT_EQ(cuda_driver(host.view), "535.104.05");
  host.put(file,
           "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n");
  EXPECT_EQ(cuda_driver(host.view), "550.54.15");
  host.put(file, "nothing that looks like one\n");
  EXPECT_EQ(cuda_driver(host.view), "");
}

TEST(Cuda, GpusNeedADriverAndItsLibrary) {
  FakeHost host;
  EXPECT_EQ(said(check_cuda(host.view)), "ok: no driver and no GPU: libcuda.so.1: none");
  host.probes().fabric.gpus.resize(8);
  EXPECT_EQ(said(check_cuda(host.view)), "costs: 8 GPUs, but no NVIDIA driver: libcuda.so.1: none");
  host.put("/proc/driver/nvidia/version", "NVRM version: Kernel Module  535.104.05  Sat\n");
  EXPECT_EQ(said(check_cuda(host.view)),
            "costs: driver 535.104.05, 8 GPUs, but libcuda.so.1: none");
  host.probes().cuda = 12020;
  EXPECT_EQ(said(check_cuda(host.view)), "ok: driver 535.104.05, CUDA 12.2, 8 GPUs");
  host.put("/proc/driver/nvidia/version", "");
  EXPECT_EQ(said(check_cuda(host.view)), "ok: CUDA 12.2, 8 GPUs");
}

TEST(Nvml, GpusWithoutItHaveUnknownLinks) {
  FakeHost host;
  EXPECT_EQ(said(check_nvml(host.view)), "ok: none: libnvidia-ml.so.1: none");
  host.probes().fabric.gpus.resize(2);
  EXPECT_EQ(said(check_nvml(host.view)), "costs: 2 GPUs, but libnvidia-ml.so.1: none");
  host.probes().nvml = "550.54.15";
  EXPECT_EQ(said(check_nvml(host.view)), "ok: driver 550.54.15, no NVLink");
  host.probes().fabric.nvlinks.resize(1);
  EXPECT_EQ(said(check_nvml(host.view)), "ok: driver 550.54.15, NVLinks between 1 pair");
}

TEST(Nccl, ItsVersionOrWhyItCannotBeUsed) {
  FakeHost host;
  EXPECT_EQ(said(check_nccl(host.view)), "ok: none: libnccl.so.2: none");
  EXPECT_EQ(nccl_version_text(host.view), "");
  host.probes().nccl = 21803;
  EXPECT_EQ(said(check_nccl(host.view)), "ok: 2.18.3");
}

TEST(Examine, RunsEveryCheckOnce) {
  FakeHost host;
  host.probes().library = own_version();
  const Report report = examine(host.view);
  ASSERT_EQ(report.findings.size(), checks().size());
  std::set<std::string> names;
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check << " " << finding.found;
    names.insert(finding.check);
  }
  EXPECT_EQ(names.size(), checks().size());
  EXPECT_EQ(report.versions, (Versions{own_version(), "6.1.0-18-amd64", "1.13.1", "2.8", "", ""}));
  EXPECT_EQ(report.nics.size(), 1u);
}

TEST(Page, HasARowForEveryCheck) {
  const std::string page = read_file(std::getenv("ECHELON_DOCTOR_PAGE"));
  const auto expect_row = [&](std::string_view name) {
    EXPECT_TRUE(contains(page, fmt::format("\n| `{}` |", name))) << name;
  };
  for (const Check& check : checks()) expect_row(check.name);
  for (const ComparingCheck& check : comparing_checks()) expect_row(check.name);
}

}  // namespace
}  // namespace echelon::doctor
