// SPDX-License-Identifier: Apache-2.0
#include "tools/cluster/network.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "lib/base/error.h"

namespace echelon::cluster {
namespace {

constexpr int kPrefix = 16;  // subnets 10.(200 + NIC).0.0/16

std::string bridge_name(int rack) { return fmt::format("rack{}", rack); }
std::string core_port_name(int rack) { return fmt::format("core{}", rack); }

// A child that runs a batch of commands in a namespace, and what it says.
struct Batch {
  std::string program;
  pid_t pid;
  Fd output;
};

Batch start_batch(const Namespace& where, const char* program, const std::string& lines) {
  const Fd input = text_file(lines);
  Fd output = text_file("");
  Command command;
  command.argv = {program, "-batch", "-"};
  command.in = input.get();
  command.out = command.err = output.get();
  try {
    return {program, where.spawn_in_network(command), std::move(output)};
  } catch (const Error& e) {
    throw Error(ECH_ERR_UNSUPPORTED,
                fmt::format("{} (is iproute2 installed?)", std::string(e.what())));
  }
}

// Waits for all, then throws what the first one that failed said.
void finish(std::vector<Batch> batches) {
  std::string problem;
  for (const Batch& batch : batches) {
    if (wait_for(batch.pid) == 0 || !problem.empty()) continue;
    char text[512] = {};
    const ssize_t n = pread(batch.output.get(), text, sizeof text - 1, 0);
    const std::string_view said(text, n > 0 ? static_cast<std::size_t>(n) : 0);
    problem = fmt::format("{}: {}", batch.program, said.substr(0, said.find('\n')));
  }
  if (!problem.empty()) throw Error(ECH_ERR_UNSUPPORTED, "cannot make virtual links: " + problem);
}

// The batches of every namespace at once, since each spends most of its time starting.
class Batches {
 public:
  void add(const Namespace& where, const char* program, const std::string& lines) {
    if (!lines.empty()) running_.push_back(start_batch(where, program, lines));
  }
  void finish() { cluster::finish(std::move(running_)); }

 private:
  std::vector<Batch> running_;
};

std::string add_bridge(const std::string& name) {
  return fmt::format(
      "link add {0} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\nlink set {0} up\n",
      name);
}

std::string create_links(const Spec& spec, const std::vector<Namespace>& hosts) {
  std::string lines;
  for (int rack = 0; rack < spec.racks; ++rack) lines += add_bridge(bridge_name(rack));
  for (std::size_t h = 0; h < spec.hosts.size(); ++h) {
    for (int nic = 0; nic < spec.nics; ++nic) {
      const std::string port = port_name(static_cast<int>(h), nic);
      lines += fmt::format("link add {} type veth peer name {} netns {}\n", port, nic_name(nic),
                           hosts[h].pid());
      lines += fmt::format("link set {} master {} up\n", port, bridge_name(spec.hosts[h].rack));
    }
  }
  if (spec.racks == 1) return lines;
  lines += add_bridge("core");
  for (int rack = 0; rack < spec.racks; ++rack) {
    const std::string uplink = uplink_name(rack), core = core_port_name(rack);
    lines += fmt::format("link add {} type veth peer name {}\n", uplink, core);
    lines += fmt::format("link set {} master core up\n", core);
    lines += fmt::format("link set {} master {} up\n", uplink, bridge_name(rack));
  }
  return lines;
}

std::string configure_host(const Spec& spec, int host) {
  std::string lines = "link set lo up\n";
  for (int nic = 0; nic < spec.nics; ++nic) {
    lines += fmt::format("link set {} up\naddress add {}/{} dev {}\n", nic_name(nic),
                         nic_address(host, nic), kPrefix, nic_name(nic));
  }
  return lines;
}

// A queue of 20 ms drops what exceeds the rate, as a switch does.
std::string shape(const std::string& device, double bits) {
  if (bits == 0) return {};
  return fmt::format("qdisc add dev {} root tbf rate {:.0f}bit burst 128kb latency 20ms\n", device,
                     bits);
}

std::string shape_host(const Spec& spec, std::size_t host) {
  std::string lines;
  for (int nic = 0; nic < spec.nics; ++nic) lines += shape(nic_name(nic), spec.true_nic_bits(host));
  return lines;
}

std::string shape_switch(const Spec& spec) {
  std::string lines;
  for (std::size_t h = 0; h < spec.hosts.size(); ++h) {
    for (int nic = 0; nic < spec.nics; ++nic) {
      lines += shape(port_name(static_cast<int>(h), nic), spec.true_nic_bits(h));
    }
  }
  for (int rack = 0; spec.racks > 1 && rack < spec.racks; ++rack) {
    lines += shape(uplink_name(rack), spec.uplink_bits);
    lines += shape(core_port_name(rack), spec.uplink_bits);
  }
  return lines;
}

// What a file below /sys/class/net of a namespace says.
std::string device_state(const Namespace& where, const std::string& file) {
  std::ifstream in(fmt::format("/proc/{}/root/sys/class/net/{}", where.pid(), file));
  std::string state;
  in >> state;
  return state;
}

bool links_are_up(const Spec& spec, const Namespace& network, const std::vector<Namespace>& hosts) {
  constexpr const char* kForwarding = "3";
  const auto forwards = [&](const std::string& port) {
    return device_state(network, port + "/brport/state") == kForwarding;
  };
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    for (int nic = 0; nic < spec.nics; ++nic) {
      if (device_state(hosts[h], nic_name(nic) + "/operstate") != "up") return false;
      if (!forwards(port_name(static_cast<int>(h), nic))) return false;
    }
  }
  for (int rack = 0; spec.racks > 1 && rack < spec.racks; ++rack) {
    if (!forwards(uplink_name(rack)) || !forwards(core_port_name(rack))) return false;
  }
  return true;
}

// A packet sent before a bridge port forwards is lost, and its sender waits a second or more
// before it tries again.
void await_links(const Spec& spec, const Namespace& network, const std::vector<Namespace>& hosts) {
  constexpr std::chrono::seconds kLimit{5};
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  while (!links_are_up(spec, network, hosts)) {
    if (std::chrono::steady_clock::now() > limit) {
      throw Error(ECH_ERR_SYSTEM, "virtual links did not come up within 5 s");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

std::string nic_name(int nic) { return fmt::format("eth{}", nic); }
std::string port_name(int host, int nic) { return fmt::format("h{}n{}", host, nic); }
std::string uplink_name(int rack) { return fmt::format("uplink{}", rack); }

std::string nic_address(int host, int nic) {
  return fmt::format("10.{}.0.{}", 200 + nic, host + 1);
}

void connect(const Spec& spec, const Namespace& network, const std::vector<Namespace>& hosts) {
  Batches create;
  create.add(network, "ip", create_links(spec, hosts));
  create.finish();
  Batches configure;
  configure.add(network, "tc", shape_switch(spec));
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    configure.add(hosts[h], "ip", configure_host(spec, static_cast<int>(h)));
    configure.add(hosts[h], "tc", shape_host(spec, h));
  }
  configure.finish();
  await_links(spec, network, hosts);
}

}  // namespace echelon::cluster
