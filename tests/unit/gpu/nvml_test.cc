// SPDX-License-Identifier: Apache-2.0
// What becomes of a host when NVML, here a stand-in, is asked about it.
#include "lib/fabric/nvml.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"

namespace echelon {
namespace {

using Settings = std::map<std::string, std::string>;

// Variables of the stand-in as long as it lives.
class Environment {
 public:
  explicit Environment(const Settings& settings) : settings_(settings) {
    for (const auto& [name, value] : settings_)
      setenv(("STANDIN_NVML_" + name).c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : settings_) unsetenv(("STANDIN_NVML_" + name).c_str());
  }

 private:
  const Settings settings_;
};

const NvmlLibrary& library(const char* variable) {
  static std::map<std::string, NvmlLibrary> all;
  const std::string path = std::getenv(variable);
  if (!all.contains(path)) all[path] = load_nvml_library(path.c_str());
  return all[path];
}

Host with_nvml(Host host, const Settings& settings, const char* which = "ECHELON_NVML") {
  const Environment environment(settings);
  load_nvml(host, library(which));
  Host named = host;
  named.name = "host";
  EXPECT_EQ(host_from_wire(to_wire(named)), named);
  return host;
}

Host load(const Settings& settings, const char* which = "ECHELON_NVML") {
  return with_nvml({}, settings, which);
}

constexpr NvLinkEnd kGpu0{NvLinkEnd::Kind::kGpu, 0}, kGpu1{NvLinkEnd::Kind::kGpu, 1};

TEST(NvmlLibrary, TheOldestHasNoneOfTheOptionalFunctions) {
  EXPECT_EQ(library("ECHELON_OLD_NVML").device_get_gpu_fabric_info, nullptr);
  EXPECT_EQ(library("ECHELON_OLD_NVML").device_get_nvlink_state, nullptr);
  EXPECT_NE(library("ECHELON_NVML").device_get_gpu_fabric_info, nullptr);
}

TEST(NvmlLibrary, WhatCannotBeUsedIsSaid) {
  const auto reason = [](const char* name) -> std::string {
    try {
      load_nvml_library(name);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_UNSUPPORTED);
      return e.what();
    }
    return "";
  };
  EXPECT_TRUE(reason("libechelon-none.so.1").starts_with("libechelon-none.so.1: "));
  EXPECT_EQ(reason("libm.so.6"), "libm.so.6 has no nvmlInit_v2: it is too old, or another one");
  EXPECT_EQ(nvml_library() == nullptr, !nvml_absence().empty());
}

TEST(NvmlHost, HasItsGpusWithNameAddressAndUuid) {
  const Host host = load({{"GPUS", "2"}, {"PCIE", "5x16"}});
  ASSERT_EQ(host.gpus.size(), 2u);
  EXPECT_EQ(host.gpus[1].name, "gpu1");
  EXPECT_EQ(host.gpus[1].model, "Stand-in");
  EXPECT_EQ(host.gpus[1].pci, "0000:11:00.0");
  EXPECT_EQ(host.gpus[1].uuid, "GPU-1");
  EXPECT_EQ(host.gpus[1].fabric_uuid, "");
  EXPECT_TRUE(host.nvlinks.empty());
  EXPECT_TRUE(host.warnings.empty());
  const Quantity pcie = host.pci.at(find_pci(host, "0000:11:00.0")).bytes_per_second;
  EXPECT_NEAR(pcie.value, 63.0e9, 0.1e9);
  EXPECT_EQ(pcie.source, Source::kDevice);
}

// As hwloc found them: in another order, one more that NVML does not show, and an idle link.
TEST(NvmlHost, KnownGpusAreCompleted) {
  Host before;
  for (const char* pci : {"0000:aa:00.0", "0000:11:00.0", "0000:10:00.0"}) {
    before.gpus.push_back({});
    before.gpus.back().name = pci;
    before.gpus.back().pci = pci;
    before.gpus.back().numa = 1;
    before.pci.push_back({PciNode::Kind::kDevice, pci, -1, 1, {4e9, Source::kDevice}});
  }
  const Host host = with_nvml(before, {{"GPUS", "2"}, {"LINKS", "0-1:2"}});
  ASSERT_EQ(host.gpus.size(), 3u);
  EXPECT_EQ(host.gpus[0], before.gpus[0]);
  EXPECT_EQ(host.gpus[1].uuid, "GPU-1");
  EXPECT_EQ(host.gpus[1].numa, 1);
  EXPECT_EQ(host.gpus[2].uuid, "GPU-0");
  EXPECT_EQ(host.pci.size(), 3u);
  EXPECT_EQ(host.pci[0].bytes_per_second.value, 4e9);
  EXPECT_NEAR(host.pci[1].bytes_per_second.value, 31.5e9, 0.1e9) << "what it does when it is used";
  EXPECT_EQ(nvlink_bytes_per_second(host, 1, 2), 50e9);
}

TEST(NvmlLinks, OfTwoGpusAreCountedOnce) {
  const Host host = load({{"GPUS", "2"}, {"LINKS", "0-1:4x26562"}});
  ASSERT_EQ(host.nvlinks.size(), 1u);
  EXPECT_EQ(host.nvlinks[0], (NvLink{kGpu0, kGpu1, 4, {4 * 26562e6, Source::kDevice}}));
  EXPECT_TRUE(host.nvswitches.empty());
}

TEST(NvmlLinks, ToSwitchesOfTheHostAndOutside) {
  const Host host = load({{"GPUS", "2"}, {"LINKS", "0-s0:2,0-s1:2,1-s0:2,1-s1:2"}});
  ASSERT_EQ(host.nvswitches.size(), 2u);
  EXPECT_EQ(host.nvswitches[1].pci, "0000:81:00.0");
  EXPECT_EQ(host.nvlinks.size(), 4u);
  EXPECT_EQ(nvlink_bytes_per_second(host, 0, 1), 100e9);
  for (const char* outside : {"0-o:6,1-o:6", "0-?:6,1-?:6"}) {
    const Host rack = load({{"GPUS", "2"}, {"LINKS", outside}});
    ASSERT_EQ(rack.nvswitches.size(), 1u);
    EXPECT_EQ(rack.nvswitches[0].pci, "");
    EXPECT_EQ(rack.nvlinks.at(0).count, 6);
    EXPECT_EQ(nvlink_bytes_per_second(rack, 0, 1), 150e9);
  }
}

TEST(NvmlLinks, ToACpuAndToAGpuThatIsNotShown) {
  Host power;
  power.packages.resize(2);
  power.numa_nodes = {{0, 0, 0, {}}, {8, 1, 0, {}}};
  power.gpus.resize(1);
  power.gpus[0].name = "gpu0";
  power.gpus[0].pci = "0000:10:00.0";
  power.gpus[0].numa = 8;
  const Host host = with_nvml(power, {{"LINKS", "0-c:3,0-x:2"}});
  ASSERT_EQ(host.nvlinks.size(), 1u);
  EXPECT_EQ(host.nvlinks[0].b, (NvLinkEnd{NvLinkEnd::Kind::kPackage, 1}));
  EXPECT_EQ(host.nvlinks[0].count, 3);
  ASSERT_EQ(host.warnings.size(), 1u);
  EXPECT_NE(host.warnings[0].find("not shown"), std::string::npos) << host.warnings[0];
}

TEST(NvmlLinks, SpeedsAreOfOneFieldOrTheOtherOrOfTheirVersion) {
  const auto speed = [](const Settings& more) {
    Settings settings{{"GPUS", "2"}, {"LINKS", "0-1:1x26562"}};
    settings.insert(more.begin(), more.end());
    return load(settings).nvlinks.at(0).bytes_per_second;
  };
  EXPECT_EQ(speed({{"FIELD", "164"}}), (Quantity{26562e6, Source::kDevice}));
  EXPECT_EQ(speed({{"FIELD", "90"}}), (Quantity{26562e6, Source::kDevice}));
  EXPECT_EQ(speed({{"FIELD", "0"}, {"LINK", "1"}}), (Quantity{20e9, Source::kDefault}));
  EXPECT_EQ(speed({{"FIELD", "0"}, {"LINK", "6"}}), (Quantity{25e9, Source::kDefault}));
  EXPECT_EQ(speed({{"FIELD", "0"}, {"LINK", "7"}}), (Quantity{50e9, Source::kDefault}));
}

TEST(NvmlFabricInfo, IsTakenWhenItIsCompleteAndNotOfOneHostOnly) {
  const auto gpu = [](const char* fabric) { return load({{"FABRIC", fabric}}).gpus.at(0); };
  EXPECT_EQ(gpu("7:2:3").fabric_uuid, "07000000-0000-0000-0000-000000000000");
  EXPECT_EQ(gpu("7:2:3").clique, 2);
  EXPECT_EQ(gpu("7:2:2").fabric_uuid, "") << "in progress";
  EXPECT_EQ(gpu("0:0:3").fabric_uuid, "") << "a host by itself";
}

TEST(NvmlErrors, AreWarningsAndTheRestIsTaken) {
  const Host lost = load({{"GPUS", "2"}, {"FAIL", "nvmlDeviceGetHandleByIndex_v2:1=15"}});
  ASSERT_EQ(lost.gpus.size(), 1u);
  EXPECT_EQ(lost.gpus[0].uuid, "GPU-1");
  EXPECT_EQ(
      lost.warnings,
      (std::vector<std::string>{"GPU 0 of NVML: nvmlDeviceGetHandleByIndex_v2: GPU is lost (15)"}));
  const Host link =
      load({{"GPUS", "2"}, {"LINKS", "0-1:4"}, {"FAIL", "nvmlDeviceGetNvLinkState:1=999"}});
  EXPECT_EQ(link.nvlinks.at(0).count, 3);
  EXPECT_EQ(link.warnings.size(), 1u);
  const Host unsupported = load({{"FAIL", "nvmlDeviceGetUUID:1=3"}});
  EXPECT_EQ(unsupported.gpus.at(0).uuid, "");
  EXPECT_TRUE(unsupported.warnings.empty());
}

TEST(NvmlErrors, ADriverThatDoesNotAnswerMattersWhereThereAreGpus) {
  const Settings broken{{"FAIL", "nvmlInit_v2:1=9"}};
  EXPECT_EQ(load(broken), Host());
  Host host;
  host.gpus.resize(1);
  host.gpus[0].name = "gpu0";
  EXPECT_EQ(with_nvml(host, broken).warnings,
            (std::vector<std::string>{"NVLinks are unknown: nvmlInit_v2: Driver Not Loaded (9)"}));
}

TEST(NvmlErrors, AnOldVersionTellsOfGpusButNotOfLinks) {
  const Host host =
      load({{"GPUS", "2"}, {"LINKS", "0-1:4"}, {"FABRIC", "7:2:3"}}, "ECHELON_OLD_NVML");
  EXPECT_EQ(host.gpus.at(1).uuid, "GPU-1");
  EXPECT_EQ(host.gpus[1].fabric_uuid, "");
  EXPECT_TRUE(host.nvlinks.empty());
  EXPECT_TRUE(host.pci.empty());
  EXPECT_TRUE(host.warnings.empty());
}

}  // namespace
}  // namespace echelon
