// SPDX-License-Identifier: Apache-2.0
// Messages between hosts over UCX, host memory. See docs/transports.md for what the defaults
// rest on.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transports/transport.h"

namespace echelon {

// Everything has a default. What a user set by a UCX_* variable wins over it.
struct UcxConfig {
  std::vector<std::string>
      devices;                // this rank's NICs as UCX names them, nearest first; empty: all
  std::string tls;            // a UCX_TLS list; empty: all, but for the next line
  bool shared_memory = true;  // may be used between ranks of one host
  int rails = 1;              // NICs that one message may be striped over
  int peers = 0;              // how many ranks may be reached: connections take descriptors
  int openers = 1;            // ranks of this host that may open UCX at once: each takes ports

  // More of UCX's settings, without the prefix UCX_, applied last.
  std::vector<std::pair<std::string, std::string>> settings;

  // Whether a peer is on this host; asked when it is first reached. Empty: none is. Only such
  // peers are reached through shared memory, and their death must be noticed by others: UCX cannot.
  std::function<bool(int peer)> local;

  // Whether the user set this UCX_* variable. Empty: nobody did.
  std::function<bool(std::string_view variable)> user_set;
};

// How many file descriptors must be free when UCX is opened: it ends the process where it finds
// none for its own use. 20 were seen in use with one NIC; more NICs and RDMA take more. With how
// many ranks most schedules exchange messages at most: 64; two ranks that call each other at once
// make two connections. Who reaches more (direct, one_shot, roots that change) is told when there
// are no more descriptors, one connection at a time.
constexpr int ucx_descriptors(int peers) { return 64 + 2 * std::min(peers, 64); }

// Whether senders over TCP stall with pieces that are not small, given the name of the kernel's
// congestion control: with those of the BBR family (docs/transports.md).
inline bool stalls_large_pieces(std::string_view congestion_control) {
  return congestion_control.starts_with("bbr");
}

// False in a build without UCX.
bool ucx_available();

// One way in which UCX could send: "tcp" over "eth0".
struct UcxResource {
  std::string transport;
  std::string device;
  bool network = false;  // leads to other hosts
};

// What UCX finds on this machine, whatever the settings allow. Nothing in a build without UCX.
std::vector<UcxResource> ucx_resources();

// Empty in a build without UCX.
struct UcxVersions {
  std::string built;   // that Echelon was compiled with: "1.13"
  std::string loaded;  // that this process has: "1.13.1"
};

UcxVersions ucx_versions();

// Throws ECH_ERR_UNSUPPORTED in a build without UCX or where UCX finds no transport,
// ECH_ERR_INVALID for settings that it does not take.
std::unique_ptr<Medium> open_ucx(const UcxConfig& config);

}  // namespace echelon
