// SPDX-License-Identifier: Apache-2.0
// What `echelon run --emulate` adds to a virtual cluster: the fabric file of its hosts, the
// traffic report, foreign launchers.
#pragma once

#include <string>
#include <vector>

#include "tools/cluster/cluster.h"

namespace echelon::run {

// Environment entries that tell the ranks of a host what is not visible from inside: racks and
// the speed of shaped links (a veth device claims 10 Gbit/s).
std::vector<std::string> fabric_of_host(const cluster::Cluster& cluster, int host);

std::string traffic_table(const cluster::Traffic& traffic);
std::string traffic_json(const cluster::Traffic& traffic);

}  // namespace echelon::run
