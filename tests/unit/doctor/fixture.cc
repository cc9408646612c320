// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/doctor/fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace echelon::doctor {

namespace fs = std::filesystem;

FakeHost::FakeHost() {
  view.root = testing::TempDir() + "echelon-doctor-XXXXXX";
  if (mkdtemp(view.root.data()) == nullptr) throw std::runtime_error("no folder for a fake host");
  Probes& p = view.probes;
  p.kernel = "6.1.0-18-amd64";
  p.cpus = 4;
  p.descriptors = {1024, 1048576};
  p.locked_memory = {8U << 20, 8U << 20};
  p.shm = {true, true, std::uint64_t{8} << 30, std::uint64_t{8} << 30};
  p.library = "0.1.0";
  p.hwloc = "2.8";
  p.cuda_absence = "libcuda.so.1: none";
  p.nccl_absence = "libnccl.so.2: none";
  p.nvml_absence = "libnvidia-ml.so.1: none";
  p.ucx = {"1.13", "1.13.1"};
  p.ways = {{"tcp", "eth0", true}, {"tcp", "lo", true}, {"posix", "memory", false}};
  p.fabric.packages.resize(1);
  add_nic("eth0", 10, "10.0.0.1");
}

FakeHost::~FakeHost() { fs::remove_all(view.root); }

void FakeHost::put(const std::string& path, const std::string& text) const {
  const fs::path file = view.root + path;
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

Nic& FakeHost::add_nic(const std::string& name, double gigabits, const std::string& address) {
  Nic nic;
  nic.name = name;
  nic.bytes_per_second = {gigabits * 1.25e8, Source::kDevice};
  nic.addresses = {address};
  view.probes.fabric.nics.push_back(nic);
  return view.probes.fabric.nics.back();
}

std::string said(const Finding& finding) {
  const bool is_ok = finding.verdict == Verdict::kOk;
  EXPECT_EQ(finding.why.empty(), is_ok) << finding.found;
  EXPECT_EQ(finding.remedy.empty(), is_ok) << finding.found;
  EXPECT_FALSE(finding.found.empty());
  return fmt::format("{}: {}", name(finding.verdict), finding.found);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace echelon::doctor
