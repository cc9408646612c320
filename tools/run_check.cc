// SPDX-License-Identifier: Apache-2.0
#include "tools/run_check.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "lib/base/error.h"
#include "lib/base/fd.h"

namespace echelon::run {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address != nullptr && address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  }
  if (address != nullptr && address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof text);
  }
  return text;
}

// "" or what is wrong; an interface may be given by name or by its address.
std::string problem_with_interface(const std::string& wanted) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return system_error("cannot list the interfaces").what();
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::string known;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (wanted == i->ifa_name || wanted == text_of(i->ifa_addr)) {
      return (i->ifa_flags & IFF_UP) != 0 ? "" : fmt::format("interface {} is down", wanted);
    }
    if (known.find(i->ifa_name) == std::string::npos) known += std::string(" ") + i->ifa_name;
  }
  return fmt::format("no interface {}; there are{}", wanted, known);
}

}  // namespace

std::string problem_with_program(const std::string& program, const std::string& directory) {
  std::error_code ignored;
  if (program.find('/') != std::string::npos) {
    const fs::path path = fs::path(directory) / program;
    if (is_program(path)) return {};
    if (!fs::exists(path, ignored)) return fmt::format("program {} does not exist", program);
    return fmt::format("program {} is not an executable file", program);
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    if (is_program(fs::path(folder.empty() ? "." : folder) / program)) return {};
  }
  return fmt::format("program {} is not on the PATH (write ./{} for one in this folder)", program,
                     program);
}

std::vector<std::string> problems_of_this_host(const CheckRequest& request) {
  std::vector<std::string> out;
  std::error_code ignored;
  if (!fs::is_directory(request.directory, ignored)) {
    out.push_back(fmt::format("folder {} does not exist", request.directory));
  } else if (auto problem = problem_with_program(request.program, request.directory);
             !problem.empty()) {
    out.push_back(problem);
  }
  if (!request.interface_name.empty()) {
    auto problem = problem_with_interface(request.interface_name);
    if (!problem.empty()) out.push_back(problem);
  }
  return out;
}

unsigned free_port() {
  // Below the ports that the kernel gives to outgoing connections: a rank that retries while no
  // one listens yet could otherwise be given this very port and connect to itself.
  constexpr std::uint32_t kLow = 10240, kHigh = 32768;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    const std::uint32_t port = kLow + randombytes_uniform(kHigh - kLow);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (!fd) throw system_error("cannot create a socket");
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return port;
  }
  throw Error(ECH_ERR_SYSTEM, "cannot find a free port");
}

}  // namespace echelon::run
