// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/formats.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "lib/base/error.h"
#include "lib/fabric/pattern.h"
#include "lib/fabric/quantity.h"
#include "tests/support/ranks.h"

namespace echelon {
namespace {

// The message of the error that `text` causes.
std::string error_of(std::string_view text) {
  try {
    expand(parse_fabric_file(text, "f.toml"));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    return e.what();
  }
  return "no error";
}

TEST(Quantity, ParsesWhatPeopleWrite) {
  EXPECT_EQ(parse_bandwidth("1 gbit/s"), 0.125e9);
  EXPECT_EQ(parse_bandwidth("100Gbit/s"), 12.5e9);
  EXPECT_EQ(parse_bandwidth("25 GB/s"), 25e9);
  EXPECT_EQ(parse_bandwidth("1.5 MiB/s"), 1.5 * 1024 * 1024);
  EXPECT_EQ(parse_time("25 us"), 25e-6);
  EXPECT_EQ(parse_time("300 ns"), 300e-9);
  EXPECT_EQ(parse_size("512 KiB"), 512u * 1024);
  for (const char* bad : {"", "1", "gbit/s", "1 gb", "-1 gbit/s", "0 B/s", "nan B/s", "inf B/s",
                          "1e300 GB/s", "1 gbit/s x", "1 us"})
    EXPECT_FALSE(parse_bandwidth(bad)) << bad;
  for (const char* bad : {"0 s", "-1 us", "1000 s", "1 gbit/s", "us"})
    EXPECT_FALSE(parse_time(bad));
  for (const char* bad : {"-1 B", "0.5 B", "1e30 B", "1"}) EXPECT_FALSE(parse_size(bad));
}

TEST(Quantity, WritesWhatParsesBackExactly) {
  EXPECT_EQ(format_bandwidth(0.125e9), "1 gbit/s");
  EXPECT_EQ(format_bandwidth(25e9), "200 gbit/s");
  EXPECT_EQ(format_time(25e-6), "25 us");
  EXPECT_EQ(format_size(512 * 1024), "512 KiB");
  for (double v : {1.0, 117123456.789, 1.0 / 3 * 1e9, 15.753846e9, 9.9e13}) {
    EXPECT_EQ(parse_bandwidth(format_bandwidth(v)), v);
    EXPECT_EQ(parse_time(format_time(v * 1e-15)), v * 1e-15);
  }
  EXPECT_EQ(show_bandwidth(117.4e6, true), "939 Mbit/s");
  EXPECT_EQ(show_time(0.3e-6), "300 ns");
}

TEST(Pattern, MatchesAndCounts) {
  EXPECT_TRUE(matches("node*", "node17"));
  EXPECT_TRUE(matches("*-ib?", "a-ib0"));
  EXPECT_FALSE(matches("node*", "xnode"));
  EXPECT_TRUE(matches("n[0-3,12].x", "n12.x"));
  EXPECT_FALSE(matches("n[0-3,12].x", "n4.x"));
  EXPECT_TRUE(matches("n[08-11]", "n09"));
  EXPECT_FALSE(matches("n[08-11]", "n9"));
  EXPECT_EQ(expand("n[08-10]", 9), (std::vector<std::string>{"n08", "n09", "n10"}));
  EXPECT_EQ(expand("r[0-1]n[0,5]", 9), (std::vector<std::string>{"r0n0", "r0n5", "r1n0", "r1n5"}));
  EXPECT_EQ(expand("plain", 1), (std::vector<std::string>{"plain"}));
  for (const char* bad : {"n[", "n[]", "n[3-1]", "n[a]", "n[0-9]", "n*", "n[0-99999999999]"})
    EXPECT_FALSE(expand(bad, 9)) << bad;
  const std::string long_text(10000, 'a');
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*b", long_text)) << "and does so soon";
}

constexpr std::string_view kFile = R"(
name = "lab"
[[host]]
name = "node[0-3]"
ranks = 2
[[host.package]]
cpus = "0-7"
[[host.nic]]
name = "eth[0-1]"
bandwidth = "10 gbit/s"
latency = "30 us"
[[host]]
name = "node3"
[[host.nic]]
name = "eth1"
up = false
[[rack]]
name = "rack[0-1]"
hosts = "node*"
size = 2
uplink = "10 gbit/s"
[tier.host]
bandwidth = "5 GB/s"
)";

TEST(FabricFile, DescribesACluster) {
  const Fabric fabric = expand(parse_fabric_file(kFile, "lab.toml"));
  ASSERT_EQ(fabric.hosts.size(), 4u);
  EXPECT_EQ(fabric.hosts[3].name, "node3");
  EXPECT_EQ(fabric.hosts[0].ranks, 2);
  ASSERT_EQ(fabric.hosts[0].nics.size(), 2u);
  EXPECT_EQ(fabric.hosts[0].nics[1].name, "eth1");
  EXPECT_EQ(fabric.hosts[0].nics[1].bytes_per_second, (Quantity{1.25e9, Source::kFile}));
  EXPECT_EQ(fabric.hosts[0].nics[1].latency, (Quantity{30e-6, Source::kFile}));
  EXPECT_FALSE(fabric.hosts[3].nics[1].up) << "a later rule adds to an earlier one";
  ASSERT_EQ(fabric.racks.size(), 2u);
  EXPECT_EQ(fabric.racks[1].name, "rack1");
  EXPECT_EQ(fabric.racks[1].hosts, (std::vector<int>{2, 3}));
  EXPECT_EQ(fabric.tiers.at(0).bytes_per_second.value, 5e9);
  const Layout layout = make_layout(fabric, spread_ranks(fabric, 0));
  EXPECT_EQ(validate(layout), "");
  EXPECT_EQ(layout.size, 8);
}

TEST(FabricFile, OverridesWhatWasDiscovered) {
  Fabric fabric;
  for (const char* name : {"node0", "other"}) {
    fabric.hosts.emplace_back();
    fabric.hosts.back().name = name;
    Nic nic;
    nic.name = "eth0";
    nic.bytes_per_second = {1.25e8, Source::kDevice};
    fabric.hosts.back().nics = {nic};
  }
  apply(parse_fabric_file(kFile, "lab.toml"), fabric);
  EXPECT_EQ(fabric.name, "lab");
  EXPECT_EQ(fabric.hosts[0].nics[0].bytes_per_second, (Quantity{1.25e9, Source::kFile}));
  ASSERT_EQ(fabric.hosts[0].nics.size(), 1u) << "a file makes no devices";
  ASSERT_EQ(fabric.hosts[0].warnings.size(), 1u);
  EXPECT_NE(fabric.hosts[0].warnings[0].find("eth1"), std::string::npos);
  EXPECT_EQ(fabric.hosts[1].nics[0].bytes_per_second.source, Source::kDevice);
  EXPECT_EQ(fabric.racks.at(0).hosts, (std::vector<int>{0}));
  EXPECT_EQ(fabric.tiers.size(), 1u);
}

TEST(FabricFile, ErrorsNameTheLineAndWhatWasExpected) {
  EXPECT_EQ(error_of("name = 3"), "f.toml:1: name: a number; expected a text");
  EXPECT_EQ(error_of("\nspeed = 1"),
            "f.toml:2: speed: unknown key; expected one of name, warnings, host, rack, tier");
  EXPECT_EQ(error_of("[[host]]\nname='a'\n[[host.nic]]\nname='e'\nbandwidth='fast'"),
            "f.toml:5: host.nic.bandwidth: \"fast\"; expected a bandwidth such as \"1 gbit/s\" or "
            "\"25 GB/s\"");
  const auto starts = [&](std::string_view text, std::string_view with) {
    EXPECT_TRUE(error_of(text).starts_with(with)) << error_of(text);
  };
  starts("a = \n", "f.toml:1: ");
  starts("[[host]]\nranks = 2", "f.toml:1: host.name: missing");
  starts("[[host]]\nname = 'n[0-99999]'", "f.toml:2: host.name: \"n[0-99999]\"; expected");
  starts("[[host]]\nname = 'n'\nranks = 1.5", "f.toml:3: host.ranks: 1.5; expected a whole");
  starts("[[host]]\nname = 'n'\n[[host.nvlink]]\na='gpu 0'\nb='gpu 1'", "f.toml:4: host.nvlink.a");
  starts("[tier.galaxy]", "f.toml:1: tier.galaxy");
  starts("[tier.host]\nkind='string'", "f.toml:2: tier.host.kind: \"string\"; expected one of");
  starts("[[host]]\nname='a'\n[[rack]]\nname='r'\nhosts='a'\n[[rack]]\nname='s'\nhosts='a'",
         "f.toml: host a is in racks r and s");
  starts("when = 2020-01-01", "f.toml:1: a date");
  starts("{\n\"name\": }", "f.toml:2: not valid json");
  starts("{\"name\": null}", "f.toml: null");
  EXPECT_THROW(load_fabric_file("/nonexistent/file.toml"), Error);
}

TEST(FabricFile, DeepOrHugeInputIsAnError) {
  const std::string deep(100000, '[');
  EXPECT_NE(error_of("a = " + deep), "no error");
  EXPECT_NE(error_of("{\"a\": " + deep), "no error");
  EXPECT_NE(
      error_of("[[host]]\nname='a'\n[[host.nic]]\nname='e[0-999]'\n[[host.nic]]\nname='f[0-99]'"),
      "no error");
}

Host full_host() {
  Host host;
  host.name = "full";
  host.id = "boot:full:1:2";
  host.ranks = 3;
  host.packages = {
      {"CPU \"x\"\\", CpuSet::range(0, 3), {CpuSet::range(0, 1), CpuSet::range(2, 3)}}};
  host.numa_nodes = {{0, 0, 123456789, CpuSet::range(0, 3)}, {9, -1, 0, {}}};
  host.caches = {{2, 524288, {CpuSet::range(0, 1), CpuSet::range(2, 3)}}};
  host.pci = {{PciNode::Kind::kRootComplex, "", -1, 0, {}},
              {PciNode::Kind::kBridge, "0000:00:01.0", 0, 0, {15.75e9, Source::kDevice}}};
  host.nics = {{"ib0",
                LinkKind::kInfiniband,
                {1e9 / 3, Source::kMeasured},
                {1e-6, Source::kFile},
                "0000:01:00.0",
                0,
                {"10.0.0.1", "fd00::1"},
                "mlx5_0",
                1,
                false}};
  host.gpus = {{"gpu0", "model", "0000:02:00.0", 0, "", "", 0}, {"gpu1", "", "", -1, "", "", 0}};
  host.nvswitches = {{"nvswitch0", "0000:03:00.0"}};
  host.nvlinks = {
      {{NvLinkEnd::Kind::kGpu, 0}, {NvLinkEnd::Kind::kGpu, 1}, 4, {1e11, Source::kDefault}},
      {{NvLinkEnd::Kind::kGpu, 1}, {NvLinkEnd::Kind::kSwitch, 0}, 0, {5e10, Source::kDevice}},
      {{NvLinkEnd::Kind::kGpu, 1}, {NvLinkEnd::Kind::kPackage, 0}, 1, {}}};
  host.warnings = {"something is unknown"};
  return host;
}

TEST(Dump, RoundTripsEveryFact) {
  Fabric fabric;
  fabric.name = "all";
  fabric.hosts = {full_host(), Host()};
  fabric.hosts[1].name = "bare";
  fabric.racks = {
      {"r", {1, 0}, {5e9, Source::kMeasured}},
  };
  fabric.tiers = {{TierKind::kHost, LinkKind::kShm, {5e9, Source::kFile}, {}},
                  {TierKind::kRack, {}, {}, {1e-5, Source::kMeasured}}};
  fabric.warnings = {"w"};
  EXPECT_EQ(expand(parse_fabric_file(to_toml(fabric), "dump.toml")), fabric) << to_toml(fabric);
  EXPECT_EQ(expand(parse_fabric_file(to_json(fabric), "dump.json")), fabric) << to_json(fabric);
}

TEST(Wire, CarriesAHostAndTrustsNothing) {
  const std::string bytes = to_wire(full_host());
  EXPECT_EQ(host_from_wire(bytes), full_host());
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_THROW(host_from_wire(std::string_view(bytes).substr(0, n)), Error);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string bent = bytes;
    bent[i] = static_cast<char>(bent[i] ^ (1 << i % 8));
    try {
      host_from_wire(bent);  // may be a different valid host
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    }
  }
  EXPECT_THROW(host_from_wire(std::string(kMostWireBytes + 1, ' ')), Error);
}

TEST(Text, ShowsTheTreeForPeople) {
  const Fabric fabric = expand(parse_fabric_file(kFile, "lab.toml"));
  const std::string text = to_text(fabric, spread_ranks(fabric, 0));
  EXPECT_EQ(text.substr(0, text.find("  rack rack1")),
            "cluster lab: 4 hosts, 8 ranks\n"
            "  rack rack0: 2 hosts, uplink 10 Gbit/s (file)\n"
            "    host node0: 1 socket, 2 nics, 2 ranks\n"
            "      socket 0: cpus 0-7\n"
            "        ranks: 0 1\n"
            "      nic eth0: ethernet, 10 Gbit/s (file), 30 us (file)\n"
            "      nic eth1: ethernet, 10 Gbit/s (file), 30 us (file)\n"
            "    host node1: 1 socket, 2 nics, 2 ranks\n"
            "      socket 0: cpus 0-7\n"
            "        ranks: 2 3\n"
            "      nic eth0: ethernet, 10 Gbit/s (file), 30 us (file)\n"
            "      nic eth1: ethernet, 10 Gbit/s (file), 30 us (file)\n");
  EXPECT_NE(to_text(fabric).find("2 hosts, node0 to node1, each"), std::string::npos);
}

// Every description in fabrics/ gives a valid layout, by itself.
TEST(Fabrics, AreUsableForPlanning) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FABRICS)) {
    if (entry.path().extension() != ".toml") continue;
    SCOPED_TRACE(entry.path().string());
    ++files;
    const auto begin = std::chrono::steady_clock::now();
    const Fabric fabric = expand(load_fabric_file(entry.path().string()));
    const std::vector<RankPlace> places = spread_ranks(fabric, 0);
    const Layout layout = make_layout(fabric, places);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(validate(layout), "");
    EXPECT_TRUE(fabric.warnings.empty() && layout.warnings.empty());
    EXPECT_GE(layout.size, 4);
    EXPECT_LT(took.count(), 2.0 * test::kSlowness) << layout.size << " ranks";
    RecordProperty(entry.path().stem().string(),
                   fmt::format("{} ranks {:.3f} s", layout.size, took.count()));
    EXPECT_FALSE(nics_of_rank(fabric, places, layout.size - 1).empty());
  }
  EXPECT_GE(files, 5);
}

}  // namespace
}  // namespace echelon
