// SPDX-License-Identifier: Apache-2.0
// Whether a network device that was there at first still is. Devices may vanish: a driver is
// unloaded, a virtual one deleted, a card pulled. Their connections only fall silent.
#pragma once

#include <string>

namespace echelon {

enum class NicState { kThere, kDown, kGone };

// Of a device of this network namespace, by its name as in UCX_NET_DEVICES: "eth0", "mlx5_0:1".
// What cannot be found out counts as there.
NicState nic_state(const std::string& device);

}  // namespace echelon
