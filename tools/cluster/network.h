// SPDX-License-Identifier: Apache-2.0
// The wires of a virtual cluster, made with ip and tc: a bridge per rack in the switch's
// namespace, a veth pair per NIC, shaped at both ends, and a shaped pair from every rack's bridge
// to the core bridge when there are several racks.
#pragma once

#include <string>
#include <vector>

#include "tools/cluster/host.h"
#include "tools/cluster/spec.h"

namespace echelon::cluster {

std::string nic_name(int nic);               // in the host: "eth0", ...
std::string port_name(int host, int nic);    // its other end, in the switch
std::string uplink_name(int rack);           // in the switch, the rack's side
std::string nic_address(int host, int nic);  // "10.200.0.1"; one subnet per NIC index

// Throws ECH_ERR_UNSUPPORTED when ip or tc is missing or refuses.
void connect(const Spec& spec, const Namespace& network, const std::vector<Namespace>& hosts);

}  // namespace echelon::cluster
