// SPDX-License-Identifier: Apache-2.0
// Messages between hosts over UCX, host memory. See docs/transports.md for what the defaults
// rest on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/link.h"
#include "transports/transport.h"

namespace echelon {

// Everything has a default. What a user set by a UCX_* variable wins over it.
struct UcxConfig {
  std::vector<std::string>
      devices;                // this rank's NICs as UCX names them, nearest first; empty: all
  std::string tls;            // a UCX_TLS list; empty: all that the next two allow
  bool sockets = true;        // TCP may be used
  bool shared_memory = true;  // so may shared memory, between ranks of one host
  int rails = 1;              // NICs that one message may be striped over
  int peers = 0;              // how many ranks may be reached: connections take descriptors

  // Messages from this size on are announced before they are sent (rendezvous). Not set: UCX's
  // own choice where there is RDMA, never over sockets alone.
  std::optional<std::size_t> rendezvous_from;

  // More of UCX's settings, without the prefix UCX_, applied last.
  std::vector<std::pair<std::string, std::string>> settings;

  // What sending to a peer costs; asked by Transport::link() and when a peer is first reached.
  // Empty: a default Ethernet link. Only peers with a link of kind kShm are reached through
  // shared memory, and the death of those must be noticed by others: UCX cannot.
  std::function<Link(int peer)> link;

  // Whether the user set this UCX_* variable. Empty: nobody did.
  std::function<bool(std::string_view variable)> user_set;
};

// How many file descriptors must be free when UCX is opened: it ends the process where it finds
// none. 20 were seen in use with one NIC; more NICs and RDMA take more. With whom a rank exchanges
// messages: no schedule has more neighbours than 64, and two ranks that call each other at once
// make two connections.
constexpr int ucx_descriptors(int peers) { return 64 + 2 * std::min(peers, 64); }

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
