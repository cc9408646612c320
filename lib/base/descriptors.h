// SPDX-License-Identifier: Apache-2.0
// Descriptors, ports and threads as resources, for libraries that do not bear it when there are
// none.
#pragma once

#include <string_view>

namespace echelon {

// Throws ECH_ERR_NO_MEMORY, with what `purpose` lacks, unless this process can open `needed` more.
void require_descriptors(int needed, std::string_view purpose);

// What helps where the kernel has no port left to give out.
inline constexpr const char* kPortRemedy =
    "wait for connections to end, or widen sysctl net.ipv4.ip_local_port_range";

// Throws ECH_ERR_SYSTEM unless the kernel has `needed` more TCP ports to give out on this host.
void require_ports(int needed, std::string_view purpose);

// Throws ECH_ERR_NO_MEMORY unless this process can start one more thread.
void require_thread(std::string_view purpose);

}  // namespace echelon
