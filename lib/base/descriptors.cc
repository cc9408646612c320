// SPDX-License-Identifier: Apache-2.0
#include "lib/base/descriptors.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <system_error>
#include <thread>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/fd.h"

namespace echelon {

void require_descriptors(int needed, std::string_view purpose) {
  std::vector<Fd> held;
  for (int have = 0; have < needed; ++have) {
    Fd one(eventfd(0, EFD_CLOEXEC));
    if (!one)
      throw system_error(
          fmt::format("{} needs {} file descriptors, {} are left", purpose, needed, have));
    held.push_back(std::move(one));
  }
}

void require_thread(std::string_view purpose) {
  try {
    std::thread([] {}).join();
  } catch (const std::system_error& e) {
    throw system_error(fmt::format("{} needs a thread", purpose), e.code().value());
  }
}

void require_ports(int needed, std::string_view purpose) {
  std::vector<Fd> held;
  for (int have = 0; have < needed; ++have) {
    Fd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!one) return;  // no such network, or no descriptors: not for this function to say
    const sockaddr_in any{AF_INET, 0, {INADDR_ANY}, {}};
    if (::bind(one.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0)
      throw Error(ECH_ERR_SYSTEM, fmt::format("{} needs {} free ports, {} are left ({})", purpose,
                                              needed, have, kPortRemedy));
    held.push_back(std::move(one));
  }
}

}  // namespace echelon
