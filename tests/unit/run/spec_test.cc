// SPDX-License-Identifier: Apache-2.0
#include "tools/cluster/spec.h"

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tools/run_emulate.h"

namespace echelon::cluster {
namespace {

std::vector<int> ranks_of(const Spec& spec) {
  std::vector<int> out;
  for (const HostSpec& host : spec.hosts) out.push_back(host.ranks);
  return out;
}

std::string error_of(std::string_view text) {
  try {
    parse_spec(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    return e.what();
  }
  return "";
}

TEST(Spec, EqualHosts) {
  const Spec spec = parse_spec("4x2:1gbit");
  EXPECT_EQ(ranks_of(spec), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(spec.ranks(), 8);
  EXPECT_EQ(spec.racks, 1);
  EXPECT_EQ(spec.nics, 1);
  EXPECT_EQ(spec.nic_bits, 1e9);
  EXPECT_EQ(spec.uplink_bits, 0);
}

TEST(Spec, UnequalHosts) {
  const Spec spec = parse_spec("3+1+2:100mbit");
  EXPECT_EQ(ranks_of(spec), (std::vector<int>{3, 1, 2}));
  EXPECT_EQ(spec.nic_bits, 1e8);
}

TEST(Spec, RacksHaveAnUplink) {
  const Spec spec = parse_spec("2x3x4:1gbit/2.5gbit");
  EXPECT_EQ(spec.racks, 2);
  EXPECT_EQ(spec.hosts.size(), 6u);
  EXPECT_EQ(spec.hosts[2].rack, 0);
  EXPECT_EQ(spec.hosts[3].rack, 1);
  EXPECT_EQ(spec.uplink_bits, 1e9);
  EXPECT_EQ(spec.nic_bits, 2.5e9);
}

TEST(Spec, SeveralNics) {
  const Spec spec = parse_spec("4x2:2x1gbit");
  EXPECT_EQ(spec.nics, 2);
  EXPECT_EQ(spec.nic_bits, 1e9);
  EXPECT_EQ(parse_spec("2x2x2:1gbit/2x500kbit").nics, 2);
}

TEST(Spec, Unshaped) {
  EXPECT_EQ(parse_spec("4x2").nic_bits, 0);
  EXPECT_EQ(parse_spec("2x2x2").uplink_bits, 0);
}

TEST(Spec, AHostMayHaveAnotherSpeedThanItsFabricSays) {
  const Spec spec = parse_spec("4x2:1gbit,host2=200mbit,host0=2gbit");
  EXPECT_EQ(spec.nic_bits, 1e9);
  EXPECT_EQ(spec.true_nic_bits(0), 2e9);
  EXPECT_EQ(spec.true_nic_bits(1), 1e9);
  EXPECT_EQ(spec.true_nic_bits(2), 2e8);
  EXPECT_EQ(run::fabric_toml(spec), run::fabric_toml(parse_spec("4x2:1gbit")));
  EXPECT_EQ(parse_spec("2x2x1:1gbit/1gbit,host3=100mbit").true_nic_bits(3), 1e8);
}

TEST(Spec, ErrorsNameThePositionAndWhatWasExpected) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "position 1: expected a number from 1"},
      {"x2", "position 1: expected a number from 1"},
      {"4", "position 2: expected 'x' or '+'"},
      {"4x", "position 3: expected a number from 1"},
      {"0x2", "position 1: expected a number from 1"},
      {"4x2:", "position 5: expected a speed"},
      {"4x2:1", "position 6: expected kbit, mbit or gbit"},
      {"4x2:1tbit", "position 6: expected kbit, mbit or gbit"},
      {"4x2:0gbit", "position 5: expected a speed from"},
      {"4x2:nangbit", "position 5: expected a speed"},
      {"4x2:-1gbit", "position 5: expected a speed"},
      {"4x2:1gbit/10gbit", "position 10: expected the end, as uplinks need racks"},
      {"2x2x2:1gbit", "position 12: expected '/'"},
      {"4x2:99x1gbit", "position 5: expected NICs per host from 1 to 8"},
      {"4x2:1gbit ", "position 10: expected the end"},
      {"4x2:1gbit,", "position 11: expected a host such as host2"},
      {"4x2:1gbit,h2=1mbit", "position 11: expected a host such as host2"},
      {"4x2:1gbit,host4=1mbit", "position 15: expected the number of a host, 0 to 3"},
      {"4x2:1gbit,host-1=1mbit", "position 15: expected the number of a host, 0 to 3"},
      {"4x2:1gbit,host1", "position 16: expected '='"},
      {"4x2:1gbit,host1=1", "position 18: expected kbit"},
      {"4x2,host1=1mbit", "position 4: expected 'x', '+', ':' or the end"},
      {"4x2 ", "position 4: expected 'x', '+', ':' or the end"},
      {"3+", "position 3: expected ranks of a host"},
      {"3+1x2", "position 4: expected"},
      {"99999999999999999999x2", "position 1: expected a number"},
      {"200x2x1:1gbit/1gbit", "at most 32 racks"},
      {"30x200x1:1gbit/1gbit", "at most 250 hosts"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(error_of(text).find(expected), std::string::npos) << text << ": " << error_of(text);
    EXPECT_NE(error_of(text).find("2x2x2:1gbit/10gbit"), std::string::npos) << "forms are named";
  }
}

TEST(Fabric, SaysWhatCannotBeSeenFromInside) {
  EXPECT_EQ(run::fabric_toml(parse_spec("4x2")), "");
  const std::string flat = run::fabric_toml(parse_spec("2x2:2x1gbit"));
  EXPECT_EQ(flat,
            "[[host]]\nname = \"host0\"\n"
            "[[host.nic]]\nname = \"eth0\"\nbandwidth = \"1000 mbit/s\"\n"
            "[[host.nic]]\nname = \"eth1\"\nbandwidth = \"1000 mbit/s\"\n"
            "[[host]]\nname = \"host1\"\n"
            "[[host.nic]]\nname = \"eth0\"\nbandwidth = \"1000 mbit/s\"\n"
            "[[host.nic]]\nname = \"eth1\"\nbandwidth = \"1000 mbit/s\"\n");
  const std::string racks = run::fabric_toml(parse_spec("2x2x1:500kbit/10gbit"));
  EXPECT_NE(racks.find("name = \"rack1\"\nhosts = [\"host2\", \"host3\"]\nuplink = \"0.5 mbit/s\""),
            std::string::npos)
      << racks;
}

}  // namespace
}  // namespace echelon::cluster
