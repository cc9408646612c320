// SPDX-License-Identifier: Apache-2.0
// `echelon doctor` over the hosts of a virtual cluster, healthy and with faults made on purpose.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/cluster/virtual_cluster.h"

namespace echelon::test {
namespace {

using Json = nlohmann::json;

class DoctorOverHosts : public OnCluster {};

struct Examined {
  int code = 0;
  Json document;

  // The findings of a check, on one host or (empty) on all.
  std::vector<Json> of(const std::string& check, const std::string& host = "") const {
    std::vector<Json> found;
    for (const Json& finding : document.at("findings"))
      if (finding.at("check") == check && (host.empty() || finding.at("host") == host))
        found.push_back(finding);
    return found;
  }

  Json only(const std::string& check, const std::string& host = "") const {
    const std::vector<Json> found = of(check, host);
    EXPECT_EQ(found.size(), 1u) << check << " " << host << "\n" << document.dump(2);
    return found.empty() ? Json{{"verdict", ""}, {"found", ""}} : found[0];
  }
};

// `faults` is done on host0 first; "$ECHELON_RSH host1 ..." reaches the others.
Examined examine(const std::string& spec, const std::string& faults,
                 const std::string& hosts = "$ECHELON_HOSTS") {
  const std::string command = faults + program() + " doctor --format json -H " + hosts;
  const Result r = echelon_run({"--emulate", spec, "--shell", command});
  Examined examined{r.code, Json::parse(r.out, nullptr, false)};
  EXPECT_FALSE(examined.document.is_discarded()) << r.out << r.err;
  return examined;
}

bool has(const Json& finding, const std::string& part) {
  return finding.at("found").get<std::string>().find(part) != std::string::npos;
}

TEST_F(DoctorOverHosts, HealthyOnesAreAlikeAndReachEachOther) {
  const Examined e = examine("3x2:2x1gbit", "");
  EXPECT_EQ(e.document.at("hosts").size(), 3u);
  for (const char* host : {"host0", "host1", "host2"}) {
    EXPECT_EQ(e.only("host", host).at("verdict"), "ok");
    const Json reach = e.only("firewall", host);
    EXPECT_EQ(reach.at("verdict"), "ok") << reach;
    // Itself and two others by name, and two NICs of each other.
    EXPECT_TRUE(has(reach, "7 names and addresses of 3 hosts")) << reach;
    EXPECT_EQ(e.only("clock", host).at("verdict"), "ok");
    EXPECT_EQ(e.only("nic-balance", host).at("found"), "2 equal NICs in use");
  }
  EXPECT_EQ(e.only("versions").at("verdict"), "ok");
  EXPECT_TRUE(has(e.only("nic-match"), "2 x 10 Gbit/s ethernet on all"));
  EXPECT_EQ(e.code, e.document.at("broken") == 0 ? 0 : 1);
}

// The kernel of host1 throws away what comes from host0 and what would go there.
TEST_F(DoctorOverHosts, AHostThatDropsPacketsIsFound) {
  const Examined e =
      examine("3x1:1gbit", "$ECHELON_RSH host1 ip route add blackhole 10.200.0.1/32; ");
  EXPECT_EQ(e.code, 1);
  const Json dropped = e.only("firewall", "host0");
  EXPECT_EQ(dropped.at("verdict"), "broken");
  EXPECT_TRUE(has(dropped, "host1 (10.200.0.2:")) << dropped;
  EXPECT_TRUE(has(dropped, "host1 (eth0 10.200.0.2:")) << dropped;
  EXPECT_TRUE(has(dropped, ": no answer")) << dropped;
  EXPECT_FALSE(has(dropped, "host2")) << dropped;
  const Json unsent = e.only("firewall", "host1");
  EXPECT_TRUE(has(unsent, "host0 (")) << unsent;
  EXPECT_TRUE(has(unsent, ": no route")) << unsent;
  EXPECT_EQ(e.only("firewall", "host2").at("verdict"), "ok");
}

TEST_F(DoctorOverHosts, RulesOfTheOwnHostAreToldApart) {
  const Examined e =
      examine("2x1:1gbit", "$ECHELON_RSH host1 ip route add prohibit 10.200.0.1/32; ");
  EXPECT_TRUE(has(e.only("firewall", "host1"), "host0 (10.200.0.1:"));
  EXPECT_TRUE(has(e.only("firewall", "host1"), ": forbidden by this host"));
}

TEST_F(DoctorOverHosts, UnknownHostsAreNamedAndTheOthersExamined) {
  const Examined e = examine("2x1:1gbit", "", "host0,nobody,host1");
  EXPECT_EQ(e.code, 1);
  EXPECT_EQ(e.only("host", "nobody").at("verdict"), "broken");
  EXPECT_EQ(e.only("host", "host1").at("verdict"), "ok");
  EXPECT_EQ(e.only("firewall", "host0").at("verdict"), "ok");
}

class FabricFile {
 public:
  explicit FabricFile(const std::string& text)
      : path_(testing::TempDir() + "doctor-" + std::to_string(getpid()) + ".toml") {
    cluster::write_file(path_, text);
    setenv("ECHELON_FABRIC", path_.c_str(), 1);
  }
  ~FabricFile() {
    unsetenv("ECHELON_FABRIC");
    unlink(path_.c_str());
  }
  FabricFile(const FabricFile&) = delete;
  FabricFile& operator=(const FabricFile&) = delete;

 private:
  std::string path_;
};

// A virtual NIC claims 10 Gbit/s whatever it does; the file says what it is.
TEST_F(DoctorOverHosts, ASlowerNicIsFoundInItsHostAndBetweenHosts) {
  const FabricFile file(
      "[[host]]\nname = \"host1\"\n[[host.nic]]\nname = \"eth1\"\nbandwidth = \"6 gbit/s\"\n");
  const Examined e = examine("2x2:2x1gbit", "");
  EXPECT_EQ(e.only("nic-balance", "host0").at("verdict"), "ok");
  const Json unequal = e.only("nic-balance", "host1");
  EXPECT_EQ(unequal.at("verdict"), "costs");
  EXPECT_TRUE(has(unequal, "eth1 has 6 Gbit/s, eth0 has 10 Gbit/s")) << unequal;
  const Json match = e.only("nic-match");
  EXPECT_EQ(match.at("verdict"), "costs");
  EXPECT_TRUE(has(match, "2 x 10 Gbit/s ethernet on host0")) << match;
}

TEST_F(DoctorOverHosts, WhatTheRanksOfAHostNeedIsHeldAgainstIt) {
  const Examined e =
      examine("2x3:1gbit", "$ECHELON_RSH host1 mount -t tmpfs -o size=10m tmpfs /dev/shm; ");
  EXPECT_EQ(e.code, 0);
  EXPECT_EQ(e.only("dev-shm", "host0").at("verdict"), "ok");
  EXPECT_EQ(e.only("dev-shm", "host1").at("verdict"), "costs") << "3 ranks take 13 MiB";
}

TEST_F(DoctorOverHosts, WhatTheUserAsksForIsMissing) {
  setenv("ECHELON_UCX_TLS", "tcp,sm", 1);
  const Examined e =
      examine("2x3:1gbit", "$ECHELON_RSH host1 mount -t tmpfs -o size=10m tmpfs /dev/shm; ");
  unsetenv("ECHELON_UCX_TLS");
  EXPECT_EQ(e.code, 1);
  EXPECT_EQ(e.only("dev-shm", "host1").at("verdict"), "broken");
}

TEST_F(DoctorOverHosts, ALoopbackDeviceThatIsDownIsFound) {
  const Examined e = examine("2x1:1gbit", "$ECHELON_RSH host1 ip link set lo down; ");
  EXPECT_EQ(e.only("loopback", "host0").at("verdict"), "ok");
  EXPECT_EQ(e.only("loopback", "host1").at("verdict"), "broken");
}

}  // namespace
}  // namespace echelon::test
