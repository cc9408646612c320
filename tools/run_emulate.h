// SPDX-License-Identifier: Apache-2.0
// What `echelon run --emulate` adds to a virtual cluster: the fabric file of its hosts, the
// traffic report, foreign launchers.
#pragma once

#include <string>

#include "tools/cluster/cluster.h"

namespace echelon::run {

// What the ranks of such a cluster cannot see from inside, as a fabric file: racks, and the speed
// of shaped links (a veth device claims 10 Gbit/s). "" when there is nothing to tell.
std::string fabric_toml(const cluster::Spec& spec);

std::string traffic_table(const cluster::Traffic& traffic);
std::string traffic_json(const cluster::Traffic& traffic);

}  // namespace echelon::run
