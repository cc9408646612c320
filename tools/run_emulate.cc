// SPDX-License-Identifier: Apache-2.0
#include "tools/run_emulate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace echelon::run {
namespace {

void add_rows(std::string& out, const std::vector<cluster::Counter>& counters) {
  for (const cluster::Counter& c : counters) {
    out += fmt::format("{:<8} {:<8} {:>16} {:>16}\n", c.owner, c.device, c.sent, c.received);
  }
}

nlohmann::json rows(const std::vector<cluster::Counter>& counters, const char* owner) {
  nlohmann::json out = nlohmann::json::array();
  for (const cluster::Counter& c : counters) {
    out.push_back(
        {{owner, c.owner}, {"device", c.device}, {"sent", c.sent}, {"received", c.received}});
  }
  return out;
}

}  // namespace

std::vector<std::string> fabric_of_host(const cluster::Cluster&, int) { return {}; }

std::string traffic_table(const cluster::Traffic& traffic) {
  std::string out =
      fmt::format("{:<8} {:<8} {:>16} {:>16}\n", "host", "device", "bytes sent", "received");
  add_rows(out, traffic.nics);
  add_rows(out, traffic.uplinks);
  return out;
}

std::string traffic_json(const cluster::Traffic& traffic) {
  const nlohmann::json out = {{"hosts", rows(traffic.nics, "host")},
                              {"racks", rows(traffic.uplinks, "rack")}};
  return out.dump(2) + "\n";
}

}  // namespace echelon::run
