// SPDX-License-Identifier: Apache-2.0
// Checks of what leads to other hosts.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "lib/base/join.h"
#include "tools/doctor/checks.h"

namespace echelon::doctor {
namespace {

using Judge = Finding (*)(std::string, std::string, std::string);

// For what several hosts need and a single one does not.
Judge broken_between_hosts(const View& view) { return view.job.hosts > 1 ? broken : costs; }

bool is_rdma(const Nic& nic) {
  return nic.kind == LinkKind::kInfiniband || nic.kind == LinkKind::kRoce;
}

std::vector<Nic> usable(const View& view) {
  std::vector<Nic> nics;
  for (int i : usable_nics(view.probes.fabric))
    nics.push_back(view.probes.fabric.nics[static_cast<std::size_t>(i)]);
  return nics;
}

// By what others reach it: UCX too prefers IPv4.
std::string address_of(const Nic& nic) {
  const auto is_v4 = [](const std::string& a) { return a.find(':') == std::string::npos; };
  const auto v4 = std::ranges::find_if(nic.addresses, is_v4);
  if (v4 != nic.addresses.end()) return *v4;
  return nic.addresses.empty() ? "" : nic.addresses[0];
}

std::string join(const std::vector<std::string>& words, const char* between = ", ") {
  return joined(words, between);
}

std::string described(const Nic& nic) {
  const Link link = link_of(nic);
  return fmt::format("{} {} {} ({})", nic.name, name(link.kind), speed_text(link.bytes_per_second),
                     name(link.source));
}

// Devices with a link that are not used, and those without.
std::string others(const View& view) {
  const std::vector<Nic> used = usable(view);
  std::vector<std::string> idle, down;
  for (const Nic& nic : view.probes.fabric.nics) {
    if (!nic.up) down.push_back(nic.name);
    if (nic.up && std::ranges::find(used, nic) == used.end()) idle.push_back(nic.name);
  }
  return (idle.empty() ? "" : "; not used: " + join(idle)) +
         (down.empty() ? "" : "; down: " + join(down));
}

// "1.9.0" is before "1.13": by numbers.
bool is_before(const std::string& version, const std::string& other) {
  int major = 0, minor = 0, other_major = 0, other_minor = 0;
  std::sscanf(version.c_str(), "%d.%d", &major, &minor);
  std::sscanf(other.c_str(), "%d.%d", &other_major, &other_minor);
  return std::pair(major, minor) < std::pair(other_major, other_minor);
}

// "tcp on eth0 lo, rc_verbs on mlx5_0:1"
std::string text_of(const std::vector<UcxResource>& ways) {
  std::map<std::string, std::set<std::string>> devices;
  for (const UcxResource& r : ways)
    if (r.network) devices[r.transport].insert(r.device);
  std::vector<std::string> words;
  for (const auto& [transport, names] : devices)
    words.push_back(fmt::format("{} on {}", transport, joined(names, " ")));
  return words.empty() ? "none that leads to other hosts" : join(words);
}

// The first RDMA port that ranks would use and UCX has nothing for but TCP.
std::string port_without_rdma(const View& view) {
  const auto serves = [](const UcxResource& r, const Nic& nic) {
    return r.transport != "tcp" && r.device.starts_with(nic.rdma_device + ":");
  };
  for (const Nic& nic : usable(view)) {
    if (!is_rdma(nic) || nic.rdma_device.empty()) continue;
    const bool served =
        std::ranges::any_of(view.probes.ways, [&](const UcxResource& r) { return serves(r, nic); });
    if (!served) return nic.rdma_device;
  }
  return {};
}

}  // namespace

std::string speed_text(double bytes_per_second) {
  const double bits = bytes_per_second * 8;
  return bits < 1e9 ? fmt::format("{:.4g} Mbit/s", bits / 1e6)
                    : fmt::format("{:.4g} Gbit/s", bits / 1e9);
}

std::vector<NicFact> used_nics(const View& view) {
  std::vector<NicFact> facts;
  for (const Nic& nic : usable(view)) {
    const Link link = link_of(nic);
    facts.push_back(
        {nic.name, std::string(name(link.kind)), link.bytes_per_second, address_of(nic)});
  }
  return facts;
}

Finding check_loopback(const View& view) {
  const Reached& reached = view.probes.loopback;
  if (reached.outcome == Outcome::kConnected) return ok("127.0.0.1 answers");
  return broken(fmt::format("no connection to {}: {}", reached.address, reached.detail),
                "the ranks of one host find each other there", "ip link set lo up");
}

Finding check_fabric(const View& view) {
  const Probes& p = view.probes;
  const std::string file = p.options.fabric_file;
  if (!p.fabric_error.empty()) {
    return broken(file.empty() ? p.fabric_error : "ECHELON_FABRIC: " + p.fabric_error,
                  "no communicator can be made without the fabric",
                  file.empty() ? "make /proc and /sys readable"
                               : "correct the file or unset ECHELON_FABRIC; docs/fabric.md");
  }
  const Host& host = p.fabric;
  return ok(fmt::format("{}, {}, {}, {}{}", counted(host.packages.size(), "socket"),
                        counted(host.numa_nodes.size(), "NUMA node"),
                        counted(host.nics.size(), "NIC"), counted(host.gpus.size(), "GPU"),
                        file.empty() ? "" : ", with what " + file + " says"));
}

Finding check_nics(const View& view) {
  std::vector<std::string> words, unknown;
  for (const Nic& nic : usable(view)) {
    words.push_back(described(nic));
    if (!nic.bytes_per_second.known()) unknown.push_back(nic.name);
  }
  if (words.empty()) {
    const std::string found = "none that is up and has an address" + others(view);
    if (view.job.hosts == 1) return ok(found + "; one host needs none");
    return broken(found, "nothing leads to the other hosts",
                  "ip link set NIC up, and give it an address");
  }
  const std::string found = join(words) + others(view);
  if (unknown.empty()) return ok(found);
  return costs(found,
               fmt::format("the speed of {} is a guess, and plans are chosen by it", join(unknown)),
               "write it into a fabric file (docs/fabric.md), or let it be measured: "
               "ECHELON_PROBE=1");
}

Finding check_nic_balance(const View& view) {
  const std::vector<NicFact> nics = used_nics(view);
  if (nics.size() < 2) return ok(fmt::format("{} in use", nics.size()));
  const auto [slow, fast] = std::ranges::minmax(nics, {}, &NicFact::bytes_per_second);
  if (slow.bytes_per_second >= 0.99 * fast.bytes_per_second)
    return ok(fmt::format("{} equal NICs in use", nics.size()));
  return costs(fmt::format("{} has {}, {} has {}", slow.name, speed_text(slow.bytes_per_second),
                           fast.name, speed_text(fast.bytes_per_second)),
               "NICs share the work evenly: all wait for the slowest",
               "see why it is slow (ethtool), or name the NICs to use in ECHELON_NICS");
}

Finding check_congestion(const View& view) {
  const std::string used = view.text("/proc/sys/net/ipv4/tcp_congestion_control");
  if (used.empty()) return ok("cannot be read");
  const std::vector<Nic> nics = usable(view);
  const bool tcp = nics.empty() || !std::ranges::all_of(nics, is_rdma);
  if (!stalls_large_pieces(used) || view.job.hosts == 1 || !tcp) return ok(used);
  return costs(used, "ranks send over TCP in smaller pieces, as larger ones stall there",
               "sysctl net.ipv4.tcp_congestion_control=cubic");
}

Finding check_ucx(const View& view) {
  const UcxVersions& ucx = view.probes.ucx;
  if (ucx.loaded.empty()) {
    return broken_between_hosts(view)("not in this build", "there is no other way between hosts",
                                      "build with -Ducx=enabled (libucx-dev)");
  }
  if (!is_before(ucx.loaded, ucx.built)) return ok(ucx.loaded);
  return costs(fmt::format("{}, but Echelon was built with {}", ucx.loaded, ucx.built),
               "an older library may lack what Echelon uses",
               "install the UCX that Echelon was built with, or build it again");
}

Finding check_transports(const View& view) {
  if (view.probes.ucx.loaded.empty()) return ok("none without UCX");
  const std::string found = text_of(view.probes.ways);
  if (!view.probes.ucx_error.empty()) {
    return broken_between_hosts(view)(
        fmt::format("{} ({})", view.probes.ucx_error, found), "no rank can open the network",
        "correct or unset UCX_TLS, UCX_NET_DEVICES, ECHELON_UCX_TLS and ECHELON_NICS; ucx_info -d "
        "shows what UCX has");
  }
  if (const std::string port = port_without_rdma(view); !port.empty()) {
    return costs(fmt::format("{}; no RDMA on {}", found, port), "messages take TCP instead of RDMA",
                 "install UCX with verbs (libibverbs1, ibverbs-providers) and see its permissions "
                 "below /dev/infiniband");
  }
  return ok(found);
}

}  // namespace echelon::doctor
