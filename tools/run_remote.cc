// SPDX-License-Identifier: Apache-2.0
#include "tools/run_remote.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <sstream>

#include "lib/base/error.h"
#include "lib/base/file.h"

namespace echelon::run {
namespace {

constexpr std::size_t kMaxNodes = 65536;

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

std::string chosen_launcher(const Options& options) {
  if (!options.launcher.empty()) return options.launcher;
  if (!environment("SLURM_JOB_ID").empty()) return "srun";
  if (!environment("PBS_NODEFILE").empty()) return "mpirun";
  return "ssh";
}

std::string ssh_command(const Options& options) {
  if (!options.ssh_command.empty()) return options.ssh_command;
  const std::string given = environment("ECHELON_RSH");
  return given.empty() ? "ssh -o BatchMode=yes" : given;
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

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

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
    out = words(ssh_command(options));
    if (out.empty()) throw invalid("--ssh-command is empty");
    out.insert(out.end(), {host, quoted(program), "run", "--agent"});
    return out;
  }
  out.insert(out.end(), {program, "run", "--agent"});
  return out;
}

std::vector<int> parse_tasks_per_node(std::string_view text) {
  std::vector<int> out;
  const Error wrong =
      invalid(fmt::format("SLURM_TASKS_PER_NODE '{}': expected a list such as 4(x2),3", text));
  const auto number = [&](std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    if (whole && value > 0 && value <= 65536) return value;
    throw wrong;
  };
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t times = item.find("(x");
    const int tasks = number(item.substr(0, times));
    const int nodes = times == std::string_view::npos
                          ? 1
                          : number(item.substr(times + 2, item.size() - times - 3));
    out.insert(out.end(), static_cast<std::size_t>(nodes), tasks);
    if (out.size() > kMaxNodes) throw wrong;
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return out;
}

std::vector<HostSlots> allocated_hosts() {
  const std::string nodes = environment("SLURM_JOB_NODELIST");
  if (!nodes.empty()) {
    const std::vector<int> tasks = parse_tasks_per_node(environment("SLURM_TASKS_PER_NODE"));
    std::vector<HostSlots> out;
    for (const std::string& name : words(output_of({"scontrol", "show", "hostnames", nodes}))) {
      out.push_back({name, out.size() < tasks.size() ? tasks[out.size()] : 1});
    }
    return out;
  }
  const std::string file = environment("PBS_NODEFILE");
  return file.empty() ? std::vector<HostSlots>() : parse_hostfile(read_file(file), file);
}

std::vector<std::string> forwarded_environment() {
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry = *e, name = entry.substr(0, entry.find('='));
    const bool own = name == "ECHELON_SECRET" || name == "ECHELON_MACHINE";
    const bool ours = name.starts_with("ECHELON_") && !own;
    if (ours || name.starts_with("UCX_") || name == "PATH" || name == "LD_LIBRARY_PATH") {
      out.emplace_back(entry);
    }
  }
  return out;
}

}  // namespace echelon::run
