// SPDX-License-Identifier: Apache-2.0
#include "tools/run_mpi.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "lib/base/error.h"
#include "tools/run_remote.h"
#include "tools/run_shell.h"

namespace echelon::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libechelon-mpi.so";

// Beside this program, as where it was built, or where it is installed.
std::string library_path() {
  const fs::path folder = fs::path(own_path()).parent_path();
  for (const fs::path& place : {folder, folder.parent_path() / ECHELON_LIBDIR})
    if (fs::exists(place / kLibrary)) return (place / kLibrary).string();
  throw invalid(fmt::format(
      "--mpi-dropin: {} is neither in {} nor in {}; this Echelon was built without MPI", kLibrary,
      folder.string(), (folder.parent_path() / ECHELON_LIBDIR).lexically_normal().string()));
}

void refuse(bool given, const char* option) {
  if (given)
    throw invalid(fmt::format("{} does not go with --mpi-dropin: mpirun starts the ranks", option));
}

void refuse_what_mpirun_lacks(const Options& options) {
  refuse(options.keep_going, "--keep-going");
  refuse(!options.launcher.empty(), "--launcher");
  refuse(!options.remote_echelon.empty(), "--remote-echelon");
  refuse(!options.shell.empty(), "--shell");
}

using Words = std::vector<std::string>;

void add(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

void add_variables(Words& words, const Options& options) {
  const char* const before = std::getenv("LD_PRELOAD");
  const std::string behind = before != nullptr && *before != '\0' ? fmt::format(":{}", before) : "";
  add(words, {"-x", "LD_PRELOAD=" + library_path() + behind});
  for (const std::string& entry : forwarded_environment())
    if (!entry.starts_with("PATH=")) add(words, {"-x", entry.substr(0, entry.find('='))});
  for (const std::string& entry : added_environment(options)) add(words, {"-x", entry});
  if (!options.interface_name.empty())
    add(words, {"-x", "ECHELON_INTERFACE=" + options.interface_name});
}

void add_places(Words& words, const Options& options, const std::vector<HostSlots>& hosts) {
  std::string list;
  int slots = 0;
  for (const HostSlots& host : hosts) {
    list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.name, host.slots);
    slots += host.slots;
  }
  if (hosts.empty())
    words.push_back("--oversubscribe");
  else
    add(words, {"-H", list});
  const int all = hosts.empty() ? 1 : slots;
  add(words, {"-n", std::to_string(options.n > 0 ? options.n : all)});
  if (options.placement == Placement::kByHost) add(words, {"--map-by", "node"});
  if (options.bind == Bind::kNone) add(words, {"--bind-to", "none"});
  if (options.bind == Bind::kCore) add(words, {"--bind-to", "core"});
  if (options.bind == Bind::kSocket) add(words, {"--bind-to", "socket"});
}

// How it reaches other hosts: what stands in for ssh.
void add_agent(Words& words, const Options& options, const std::vector<HostSlots>& hosts) {
  const char* const rsh = std::getenv("ECHELON_RSH");
  std::string agent = options.ssh_command;
  if (agent.empty() && rsh != nullptr) agent = rsh;
  if (!agent.empty() && !hosts.empty()) add(words, {"--mca", "plm_rsh_agent", agent});
}

}  // namespace

std::vector<std::string> mpirun_command(const Options& options,
                                        const std::vector<HostSlots>& hosts) {
  refuse_what_mpirun_lacks(options);
  Words words = {"mpirun"};
  if (geteuid() == 0) words.push_back("--allow-run-as-root");
  add_places(words, options, hosts);
  add_agent(words, options, hosts);
  if (options.timeout > 0)
    add(words, {"--timeout", std::to_string(static_cast<int>(std::ceil(options.timeout)))});
  if (options.lines == Lines::kTagged) words.push_back("--tag-output");
  add_variables(words, options);
  add(words, options.program);
  return words;
}

int run_mpi(const Options& options) {
  Words words = mpirun_command(options, listed_hosts(options));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw system_error("--mpi-dropin: cannot start mpirun");
}

int run_mpi(const Options& options, const cluster::Cluster& cluster) {
  Options here = options;
  std::vector<std::string> told;
  for (int h = 0; h < cluster.size(); ++h) told = tell_host(options, cluster, h);
  here.env.insert(here.env.end(), told.begin(), told.end());  // the same on all hosts
  // mpirun would bind over the cores of the machine, not over those of the host.
  if (here.bind == Bind::kAuto) here.bind = Bind::kNone;
  std::string command = "exec";
  for (const std::string& word : mpirun_command(here, hosts_of(cluster)))
    command += " " + quoted(word);
  const std::string agent = "'mpirun' --mca plm_rsh_agent \"$ECHELON_RSH\"";
  command.replace(command.find("'mpirun'"), std::string("'mpirun'").size(), agent);
  return run_shell(cluster, command);
}

}  // namespace echelon::run
