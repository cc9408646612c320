// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/nic_state.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/fd.h"

namespace echelon {

NicState nic_state(const std::string& device) {
  const std::string name = device.substr(0, device.find(':'));
  if (::access(("/sys/class/infiniband/" + name).c_str(), F_OK) == 0) return NicState::kThere;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return NicState::kThere;
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), std::min(name.size(), sizeof request.ifr_name - 1));
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0)
    return errno == ENODEV ? NicState::kGone : NicState::kThere;
  return (request.ifr_flags & IFF_UP) != 0 ? NicState::kThere : NicState::kDown;
}

}  // namespace echelon
