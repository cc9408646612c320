// SPDX-License-Identifier: Apache-2.0
#include "tools/run_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/fabric/loaders.h"
#include "tools/run_check.h"
#include "tools/run_emulate.h"
#include "tools/run_remote.h"

namespace echelon::run {
namespace {

namespace fs = std::filesystem;

bool is_this_machine(const std::string& name) {
  char own[256] = {};
  gethostname(own, sizeof own - 1);
  return name == "localhost" || name == "127.0.0.1" || name == own;
}

bool is_variable_name(std::string_view name) {
  const auto part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), part);
}

// NAME takes the value from this environment.
std::string environment_entry(const std::string& entry) {
  if (!is_variable_name(entry.substr(0, entry.find('='))))
    throw invalid(
        fmt::format("--env {}: expected NAME=VALUE or NAME, of letters, digits and _", entry));
  if (entry.find('=') != std::string::npos) return entry;
  const char* value = std::getenv(entry.c_str());
  if (value == nullptr) throw invalid(fmt::format("--env {}: not set here", entry));
  return fmt::format("{}={}", entry, value);
}

std::string absolute(const std::string& path) { return fs::absolute(path).string(); }

RunPlan common_plan(const Options& options) {
  RunPlan plan;
  plan.argv = options.program;
  plan.directory = fs::current_path().string();
  plan.interface_name = options.interface_name;
  plan.bind = options.bind;
  plan.lines = options.lines;
  plan.keep_going = options.keep_going;
  plan.timeout = options.timeout;
  plan.check_timeout = options.check_timeout;
  plan.env = added_environment(options);
  return plan;
}

// An explicit --launcher is used for this machine as well.
bool is_local(const Options& options, const std::string& host) {
  return host.empty() || (options.launcher.empty() && is_this_machine(host));
}

std::function<pid_t(const cluster::Command&)> starter(const Options& options,
                                                      const std::string& host) {
  const bool local = host.empty() || (options.launcher.empty() && is_this_machine(host));
  const std::vector<std::string> argv = local
                                            ? std::vector<std::string>{own_path(), "run", "--agent"}
                                            : remote_agent_command(options, host);
  return [argv](const cluster::Command& standard) {
    cluster::Command command = standard;
    command.argv = argv;
    return cluster::spawn(command);
  };
}

std::string own_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

void add_host(RunPlan& plan, HostPlan host) {
  if (host.ranks.empty()) return;
  plan.size += static_cast<int>(host.ranks.size());
  plan.hosts.push_back(std::move(host));
}

void check_program(const Options& options) {
  if (!options.shell.empty()) {
    if (options.emulate.empty()) throw invalid("--shell needs --emulate");
    if (!options.program.empty()) throw invalid("--shell takes the whole command; no program then");
    return;
  }
  if (options.program.empty()) throw invalid("no program given: echelon run -n 2 -- PROGRAM ARGS");
  const std::string& program = options.program[0];
  if (program[0] == '-') throw invalid(fmt::format("unknown option {}", program));
  // On other hosts their agents look.
  if (!options.hosts.empty() || !options.hostfile.empty() || !options.launcher.empty()) return;
  const std::string problem = problem_with_program(program, fs::current_path().string());
  if (!problem.empty()) throw invalid(problem);
}

}  // namespace

std::string own_path() { return fs::read_symlink("/proc/self/exe").string(); }

std::vector<std::string> added_environment(const Options& options) {
  constexpr std::string_view kProbe = "ECHELON_PROBE";
  const bool given = std::ranges::any_of(options.env, [&](std::string_view entry) {
    return entry.substr(0, entry.find('=')) == kProbe;
  });
  std::vector<std::string> env;
  if (!given && std::getenv(kProbe.data()) == nullptr) env.push_back("ECHELON_PROBE=1");
  if (!options.nics.empty()) env.push_back("ECHELON_NICS=" + options.nics);
  if (!options.fabric.empty()) env.push_back("ECHELON_FABRIC=" + absolute(options.fabric));
  for (const std::string& entry : options.env) env.push_back(environment_entry(entry));
  return env;
}

std::vector<HostSlots> listed_hosts(const Options& options) {
  if (!options.hosts.empty() && !options.hostfile.empty()) {
    throw invalid("-H and --hostfile are two ways to say the same; give one");
  }
  if (!options.hosts.empty()) return parse_host_list(options.hosts);
  if (options.hostfile.empty()) return allocated_hosts();
  return parse_hostfile(read_file(options.hostfile), options.hostfile);
}

void validate(const Options& options) {
  check_program(options);
  if (!options.emulate.empty() &&
      (!options.hosts.empty() || !options.hostfile.empty() || !options.launcher.empty())) {
    throw invalid("--emulate makes its own hosts; it does not go with -H, --hostfile, --launcher");
  }
  if (options.emulate.empty() && !options.traffic_file.empty())
    throw invalid("--traffic needs --emulate");
  if (options.no_fabric && !options.fabric.empty()) {
    throw invalid("--fabric and --no-fabric exclude each other");
  }
  if (!options.fabric.empty() && access(options.fabric.c_str(), R_OK) != 0) {
    throw system_error("--fabric " + options.fabric);
  }
}

RunPlan make_plan(const Options& options) {
  RunPlan plan = common_plan(options);
  const std::vector<HostSlots> hosts = listed_hosts(options);
  if (hosts.empty()) {
    const int n = options.n > 0 ? options.n : 1;
    const auto ranks = place({{own_name(), n}}, n, options.placement);
    add_host(plan, {own_name(), "127.0.0.1", ranks[0], {}, starter(options, "")});
    return plan;
  }
  const auto ranks = place(hosts, options.n, options.placement);
  const bool several = hosts.size() > 1;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string& name = hosts[i].name;
    const bool local = is_this_machine(name);
    const std::string address = !local ? name : several ? own_name() : "127.0.0.1";
    std::vector<std::string> env;
    if (!is_local(options, name)) env = forwarded_environment();
    add_host(plan, {name, address, ranks[i], env, starter(options, name)});
  }
  return plan;
}

std::vector<HostSlots> hosts_of(const cluster::Cluster& cluster) {
  std::vector<HostSlots> hosts;
  for (int h = 0; h < cluster.size(); ++h) {
    hosts.push_back(
        {cluster::Cluster::host_name(h), cluster.spec().hosts[static_cast<std::size_t>(h)].ranks});
  }
  return hosts;
}

std::vector<std::string> tell_host(const Options& options, const cluster::Cluster& cluster,
                                   int host) {
  // Each host has a boot id of its own, but all of them have this machine's CPUs.
  std::vector<std::string> env;
  if (std::getenv("ECHELON_MACHINE") == nullptr) env.push_back("ECHELON_MACHINE=" + this_machine());
  const bool told = options.no_fabric || !options.fabric.empty() || std::getenv("ECHELON_FABRIC");
  const std::string fabric = told ? "" : fabric_toml(cluster.spec());
  if (!fabric.empty())
    env.push_back("ECHELON_FABRIC=" + cluster.put_file(host, "fabric.toml", fabric, 0644));
  return env;
}

RunPlan make_plan(const Options& options, const cluster::Cluster& cluster) {
  RunPlan plan = common_plan(options);
  const std::vector<HostSlots> hosts = hosts_of(cluster);
  const auto ranks = place(hosts, options.n, options.placement);
  for (int h = 0; h < cluster.size(); ++h) {
    const auto index = static_cast<std::size_t>(h);
    HostPlan host{hosts[index].name, cluster::Cluster::address(h), ranks[index], {}, {}};
    host.env = tell_host(options, cluster, h);
    host.start_agent = [&cluster, h](const cluster::Command& standard) {
      cluster::Command command = standard;
      command.argv = {own_path(), "run", "--agent"};
      return cluster.spawn(h, command);
    };
    add_host(plan, std::move(host));
  }
  return plan;
}

}  // namespace echelon::run
