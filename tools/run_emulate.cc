// SPDX-License-Identifier: Apache-2.0
#include "tools/run_emulate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/cluster/network.h"

namespace echelon::run {
namespace {

void add_rows(std::string& out, const std::vector<cluster::Counter>& counters) {
  for (const cluster::Counter& c : counters) {
    out += fmt::format("{:<8} {:<8} {:>16} {:>16}\n", c.owner, c.device, c.sent, c.received);
  }
}

nlohmann::ordered_json rows(const std::vector<cluster::Counter>& counters, const char* owner) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const cluster::Counter& c : counters) {
    out.push_back(
        {{owner, c.owner}, {"device", c.device}, {"sent", c.sent}, {"received", c.received}});
  }
  return out;
}

std::string speed(double bits) { return fmt::format("{} mbit/s", bits / 1e6); }

std::string hosts_of(const cluster::Spec& spec, int rack) {
  std::string out;
  for (std::size_t h = 0; h < spec.hosts.size(); ++h) {
    if (spec.hosts[h].rack != rack) continue;
    out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ",
                       cluster::Cluster::host_name(static_cast<int>(h)));
  }
  return out;
}

}  // namespace

std::string fabric_toml(const cluster::Spec& spec) {
  std::string out;
  for (std::size_t h = 0; h < spec.hosts.size() && spec.nic_bits > 0; ++h) {
    out +=
        fmt::format("[[host]]\nname = \"{}\"\n", cluster::Cluster::host_name(static_cast<int>(h)));
    for (int nic = 0; nic < spec.nics; ++nic) {
      out += fmt::format("[[host.nic]]\nname = \"{}\"\nbandwidth = \"{}\"\n",
                         cluster::nic_name(nic), speed(spec.nic_bits));
    }
  }
  for (int rack = 0; spec.racks > 1 && rack < spec.racks; ++rack) {
    out += fmt::format("[[rack]]\nname = \"rack{}\"\nhosts = [{}]\n", rack, hosts_of(spec, rack));
    if (spec.uplink_bits > 0) out += fmt::format("uplink = \"{}\"\n", speed(spec.uplink_bits));
  }
  return out;
}

std::string traffic_table(const cluster::Traffic& traffic) {
  std::string out =
      fmt::format("{:<8} {:<8} {:>16} {:>16}\n", "host", "device", "bytes sent", "received");
  add_rows(out, traffic.nics);
  add_rows(out, traffic.uplinks);
  return out;
}

std::string traffic_json(const cluster::Traffic& traffic) {
  const nlohmann::ordered_json out = {{"hosts", rows(traffic.nics, "host")},
                                      {"racks", rows(traffic.uplinks, "rack")}};
  return out.dump(2) + "\n";
}

}  // namespace echelon::run
