// SPDX-License-Identifier: Apache-2.0
#include "tools/run_remote.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "lib/base/error.h"

namespace echelon::run {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  std::string word;
  while (in >> word) out.push_back(word);
  return out;
}

// One word for any POSIX shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string chosen_launcher(const Options& options) {
  if (!options.launcher.empty()) return options.launcher;
  if (!environment("SLURM_JOB_ID").empty()) return "srun";
  if (!environment("PBS_NODEFILE").empty()) return "mpirun";
  return "ssh";
}

std::string output_of(const std::vector<std::string>& argv) {
  const Fd output = cluster::text_file("");
  cluster::Command command;
  command.argv = argv;
  command.out = output.get();
  if (cluster::wait_for(cluster::spawn(command)) != 0) throw invalid(argv[0] + " failed");
  std::string text(65536, '\0');
  const ssize_t n = pread(output.get(), text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

}  // namespace

std::vector<std::string> remote_agent_command(const Options& options, const std::string& host) {
  const std::string program = options.remote_echelon.empty() ? own_path() : options.remote_echelon;
  const std::string launcher = chosen_launcher(options);
  std::vector<std::string> out;
  if (launcher == "srun") {
    out = {"srun",      "--quiet",    "--overlap",      "--nodelist=" + host,
           "--nodes=1", "--ntasks=1", "--cpu-bind=none"};
  } else if (launcher == "mpirun") {
    out = {"mpirun", "--host", host, "-np", "1", "--bind-to", "none", "--quiet"};
    if (geteuid() == 0) out.push_back("--allow-run-as-root");
  } else {
    out = words(options.ssh_command);
    if (out.empty()) throw invalid("--ssh-command is empty");
    out.insert(out.end(), {host, quoted(program), "run", "--agent"});
    return out;
  }
  out.insert(out.end(), {program, "run", "--agent"});
  return out;
}

std::vector<HostSlots> allocated_hosts(const Options& options) {
  if (options.launcher != "srun" && options.launcher != "mpirun" && options.n > 0) return {};
  const std::string nodes = environment("SLURM_JOB_NODELIST");
  if (!nodes.empty()) {
    // "4(x2),3": tasks per node, in the order of the nodes.
    std::vector<HostSlots> out;
    for (const auto& name : words(output_of({"scontrol", "show", "hostnames", nodes}))) {
      out.push_back({name, 1});
    }
    return out;
  }
  const std::string file = environment("PBS_NODEFILE");
  return file.empty() ? std::vector<HostSlots>() : parse_hostfile(cluster::read_file(file), file);
}

}  // namespace echelon::run
