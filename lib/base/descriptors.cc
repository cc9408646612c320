// SPDX-License-Identifier: Apache-2.0
#include "lib/base/descriptors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/fd.h"

namespace echelon {
namespace {

// How many more this process can open, `most` at most. None is opened to find out: another thread
// may want one at that moment, and a listener of UCX that gets none never listens again. The
// kernel gives the lowest first, so the free ones are at the end.
int free_descriptors(int most) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return most;
  int found = 0;
  for (int fd = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, INT_MAX)); --fd >= 0;)
    if (fcntl(fd, F_GETFD) < 0 && ++found >= most) break;
  return found;
}

}  // namespace

void require_descriptors(int needed, std::string_view purpose) {
  const int have = free_descriptors(needed);
  if (have < needed)
    throw system_error(
        fmt::format("{} needs {} file descriptors, {} are left", purpose, needed, have), EMFILE);
  if (!Fd(eventfd(0, EFD_CLOEXEC)))  // the system's own limit
    throw system_error(fmt::format("{} needs {} file descriptors", purpose, needed));
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
