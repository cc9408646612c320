// SPDX-License-Identifier: Apache-2.0
// This machine as this process sees it: which host it is, and which network interfaces belong to
// its network namespace.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include "lib/base/error.h"
#include "lib/base/fd.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/pattern.h"

namespace echelon {
namespace {

struct Interface {
  unsigned index = 0;
  unsigned flags = 0;
  std::vector<std::string> addresses;
};

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return printable(line);
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  std::string printed = printable(name);
  for (char& c : printed)
    if (kOfPatterns.find(c) != kOfPatterns.npos) c = '_';
  return printed;
}

// Ranks share a host when they share the kernel, the host name, the network namespace and the
// shared memory file system. Containers and emulated hosts on one machine differ in some of them.
std::string host_id(const std::string& name) {
  struct stat net {};
  struct stat shm {};
  if (::stat("/proc/self/ns/net", &net) != 0) net.st_ino = 0;
  if (::stat("/dev/shm", &shm) != 0) shm.st_dev = 0;
  return fmt::format("{}:{}:{}:{}", this_machine(), name, net.st_ino, shm.st_dev);
}

// "" for what others cannot use: link-local and unknown families.
std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(address);
    if (!IN6_IS_ADDR_LINKLOCAL(&in->sin6_addr))
      ::inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
  }
  return text;
}

std::map<std::string, Interface> interfaces() {
  std::map<std::string, Interface> out;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw system_error("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    Interface& interface = out[printable(i->ifa_name)];
    interface.index = ::if_nametoindex(i->ifa_name);
    interface.flags = i->ifa_flags;
    if (i->ifa_addr == nullptr) continue;
    const std::string text = address_text(i->ifa_addr);
    if (!text.empty()) interface.addresses.push_back(text);
  }
  return out;
}

// Whether /sys shows this very interface: it may be mounted for another network namespace.
bool in_sysfs(const std::string& name, const Interface& interface) {
  return first_line("/sys/class/net/" + name + "/ifindex") == fmt::format("{}", interface.index);
}

// The speed by ioctl, for interfaces that /sys does not show.
Quantity speed_of(const std::string& name) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), std::min(name.size(), sizeof request.ifr_name - 1));
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (!socket || ::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) return {};
  const std::uint32_t mbits = ethtool_cmd_speed(&command);
  if (mbits == 0 || mbits > 10'000'000) return {};
  return {mbits * 1.25e5, Source::kDevice};
}

// Whether `nic` was found, but belongs to another namespace. RDMA ports without a network device
// belong to all.
bool is_foreign(const Nic& nic, const std::map<std::string, Interface>& mine) {
  const bool rdma = normal_pci_address(nic.name).empty() &&
                    first_line("/sys/class/net/" + nic.name + "/ifindex").empty();
  return !rdma && !mine.contains(nic.name);
}

Nic nic_from_ioctl(const std::string& name, const Interface& interface) {
  Nic nic;
  nic.name = name;
  nic.bytes_per_second = speed_of(name);
  nic.up = (interface.flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
  return nic;
}

// NICs of this network namespace, and no others, with their addresses.
void load_nics(Host& host) {
  const std::map<std::string, Interface> mine = interfaces();
  const bool sysfs_is_ours = std::all_of(mine.begin(), mine.end(), [](const auto& entry) {
    return in_sysfs(entry.first, entry.second);
  });
  if (sysfs_is_ours) {
    load_sysfs(host, "/sys");
    std::erase_if(host.nics, [&](const Nic& nic) { return is_foreign(nic, mine); });
  } else {
    host.nics.clear();
    for (const auto& [name, interface] : mine)
      if ((interface.flags & IFF_LOOPBACK) == 0)
        host.nics.push_back(nic_from_ioctl(name, interface));
    drop_nics_without_a_name(host);
  }
  for (Nic& nic : host.nics)
    if (const auto at = mine.find(nic.name); at != mine.end()) nic.addresses = at->second.addresses;
}

// "" for what this machine does not have.
std::string named_device(const Host& host, const std::string& name) {
  for (const Nic& nic : host.nics) {
    const std::string port = fmt::format("{}:{}", nic.rdma_device, nic.rdma_port);
    if (!nic.rdma_device.empty() && (name == nic.rdma_device || name == port)) return port;
    if (name == nic.name) return name;
  }
  return ::if_nametoindex(name.c_str()) != 0 ? name : "";
}

}  // namespace

std::vector<std::string> named_devices(const Host& host, std::string_view names,
                                       std::string_view who) {
  std::vector<std::string> devices;
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t comma = std::min(names.find(',', at), names.size());
    const std::string name(names.substr(at, comma - at));
    devices.push_back(named_device(host, name));
    if (devices.back().empty()) {
      std::string known;
      for (const Nic& nic : host.nics) known += (known.empty() ? "" : ", ") + nic.name;
      throw invalid(fmt::format("{} names \"{}\"; this host has {}", who, printable(name),
                                known.empty() ? "no NIC" : known));
    }
    at = comma + 1;
  }
  return devices;
}

std::string this_machine() {
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  return boot.empty() ? first_line("/etc/machine-id") : boot;
}

Host discover_host() {
  Host host;
  host.name = host_name();
  host.id = host_id(host.name);
  load_hwloc(host);
  load_nvml(host);
  load_sysfs_gpus(host, "/sys");
  load_nics(host);
  return host;
}

}  // namespace echelon
