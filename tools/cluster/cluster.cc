// SPDX-License-Identifier: Apache-2.0
#include "tools/cluster/cluster.h"

#include <fmt/format.h>
#include <signal.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "tools/cluster/cores.h"
#include "tools/cluster/network.h"

namespace echelon::cluster {
namespace {

std::string random_uuid() {
  unsigned char b[16];
  randombytes_buf(b, sizeof b);
  std::string out;
  for (std::size_t i = 0; i < sizeof b; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", b[i]);
  }
  return out;
}

std::string etc_hosts(const Spec& spec) {
  std::string out = "127.0.0.1 localhost\n";
  for (int h = 0; h < static_cast<int>(spec.hosts.size()); ++h) {
    out += fmt::format("{} {}\n", Cluster::address(h), Cluster::host_name(h));
    for (int nic = 1; nic < spec.nics; ++nic) {
      out +=
          fmt::format("{} {}-{}\n", Cluster::address(h, nic), Cluster::host_name(h), nic_name(nic));
    }
  }
  return out;
}

// Device name to counters, from the table of the namespace that `pid` is in.
std::map<std::string, Counter> read_counters(pid_t pid) {
  std::map<std::string, Counter> out;
  std::istringstream table(read_file(fmt::format("/proc/{}/net/dev", pid)));
  std::string line;
  while (std::getline(table, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;  // the two title lines
    const std::size_t start = line.find_first_not_of(' ');
    Counter counter;
    std::istringstream fields(line.substr(colon + 1));
    std::uint64_t skipped = 0;
    fields >> counter.received;
    for (int i = 0; i < 7; ++i) fields >> skipped;
    fields >> counter.sent;
    counter.device = line.substr(start, colon - start);
    out[counter.device] = counter;
  }
  return out;
}

std::vector<std::vector<int>> cpus_of_hosts(const Spec& spec) {
  if (!spec.own_cores) return std::vector<std::vector<int>>(spec.hosts.size());
  std::vector<int> ranks;
  for (const HostSpec& host : spec.hosts) ranks.push_back(host.ranks);
  return share_cores(usable_cores(), ranks);
}

void subtract(std::vector<Counter>& from, const std::vector<Counter>& what) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i].sent -= what[i].sent;
    from[i].received -= what[i].received;
  }
}

}  // namespace

Traffic operator-(const Traffic& later, const Traffic& earlier) {
  Traffic out = later;
  subtract(out.nics, earlier.nics);
  subtract(out.uplinks, earlier.uplinks);
  return out;
}

std::string Cluster::host_name(int host) { return fmt::format("host{}", host); }
std::string Cluster::address(int host, int nic) { return nic_address(host, nic); }

Cluster::Cluster(Spec spec) : spec_(std::move(spec)) {
  if (sodium_init() < 0) throw Error(ECH_ERR_SYSTEM, "cannot initialize libsodium");
  const std::string names = etc_hosts(spec_);
  const std::vector<std::vector<int>> cpus = cpus_of_hosts(spec_);
  switch_ = Namespace::network();
  for (int h = 0; h < static_cast<int>(spec_.hosts.size()); ++h) {
    hosts_.push_back(Namespace::host({host_name(h), random_uuid(), names, cpus[h]}));
  }
  switch_.await_ready();
  for (Namespace& host : hosts_) host.await_ready();
  connect(spec_, switch_, hosts_);
}

pid_t Cluster::spawn(int host_index, const Command& command) const {
  return host(host_index).spawn(command);
}

int Cluster::run(int host, const std::vector<std::string>& argv) const {
  Command command;
  command.argv = argv;
  return wait_for(spawn(host, command));
}

Traffic Cluster::traffic() const {
  Traffic out;
  for (int h = 0; h < size(); ++h) {
    auto counters = read_counters(host(h).pid());
    for (int nic = 0; nic < spec_.nics; ++nic) {
      Counter& counter = counters[nic_name(nic)];
      counter.owner = host_name(h);
      out.nics.push_back(counter);
    }
  }
  if (spec_.racks == 1) return out;
  auto counters = read_counters(switch_.pid());
  for (int rack = 0; rack < spec_.racks; ++rack) {
    Counter& counter = counters[uplink_name(rack)];
    counter.owner = fmt::format("rack{}", rack);
    out.uplinks.push_back(counter);
  }
  return out;
}

std::string Cluster::put_file(int host_index, const std::string& name, const std::string& text,
                              mode_t mode) const {
  const std::string path = fmt::format("{}/{}", kPrivateFolder, name);
  const std::string seen_from_here = fmt::format("/proc/{}/root{}", host(host_index).pid(), path);
  write_file(seen_from_here, text);
  if (chmod(seen_from_here.c_str(), mode) != 0)
    throw system_error("cannot set the mode of " + path);
  return path;
}

void Cluster::configure(int host_index, const std::string& lines) const {
  const Fd input = text_file(lines);
  Command command;
  command.argv = {"ip", "-batch", "-"};
  command.in = input.get();
  if (wait_for(host(host_index).spawn_in_network(command)) != 0) {
    throw Error(ECH_ERR_SYSTEM, fmt::format("ip refused on {}: {}", host_name(host_index), lines));
  }
}

void Cluster::delete_address(int host, int nic) const {
  configure(host, fmt::format("address flush dev {}\n", nic_name(nic)));
}

void Cluster::add_address(int host, int nic) const {
  configure(host, fmt::format("address add {}/16 dev {}\n", address(host, nic), nic_name(nic)));
}

void Cluster::set_link(int host, bool up, int nic) const {
  configure(host, fmt::format("link set {} {}\n", nic_name(nic), up ? "up" : "down"));
}

void Cluster::delete_nic(int host, int nic) const {
  configure(host, fmt::format("link delete {}\n", nic_name(nic)));
}

void Cluster::stop(int host) const { signal_all(host, SIGSTOP); }
void Cluster::resume(int host) const { signal_all(host, SIGCONT); }

void Cluster::signal_all(int host_index, int signal) const {
  namespace fs = std::filesystem;
  const pid_t init = host(host_index).pid();
  std::error_code ignored;
  const fs::path space = fs::read_symlink(fmt::format("/proc/{}/ns/pid", init), ignored);
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == init) continue;
    if (fs::read_symlink(entry.path() / "ns/pid", ignored) == space) kill(pid, signal);
  }
}

}  // namespace echelon::cluster
