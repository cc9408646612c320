// SPDX-License-Identifier: Apache-2.0
// What a virtual cluster looks like, and the text that says so:
//   4x2:1gbit              4 hosts of 2 ranks, every host joined by a 1 Gbit/s link
//   3+1+2:1gbit            3 hosts of 3, 1 and 2 ranks
//   2x2x2:1gbit/10gbit     2 racks of 2 hosts of 2 ranks; rack uplink / host link
//   4x2:2x1gbit            two NICs of 1 Gbit/s in every host
//   4x2                    links as fast as the machine can copy
//   4x2:1gbit,host2=200mbit  the same as 4x2:1gbit for whoever asks, but host2's link is slower
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace echelon::cluster {

struct HostSpec {
  int rack = 0;
  int ranks = 1;
  double nic_bits = 0;  // bit/s that each NIC really has; 0: what the cluster says
};

struct Spec {
  std::vector<HostSpec> hosts;  // rack by rack
  int racks = 1;
  int nics = 1;            // per host
  double nic_bits = 0;     // bit/s of each NIC; 0: unshaped
  double uplink_bits = 0;  // bit/s of each rack's uplink; 0: unshaped or a single rack
  bool own_cores = true;   // see share_cores(); false: every host may use all

  int ranks() const;
  double true_nic_bits(std::size_t host) const;  // of each NIC; 0: unshaped
};

// Throws ECH_ERR_INVALID that names the position and what was expected there.
Spec parse_spec(std::string_view text);

}  // namespace echelon::cluster
