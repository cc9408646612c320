// SPDX-License-Identifier: Apache-2.0
#include "tools/run.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <memory>

#include "lib/base/error.h"
#include "tools/command_line.h"
#include "tools/run_agent.h"
#include "tools/run_emulate.h"
#include "tools/run_mpi.h"
#include "tools/run_options.h"
#include "tools/run_output.h"
#include "tools/run_shell.h"

namespace echelon::tools {
namespace {

using run::Bind;
using run::Options;
using run::Placement;

constexpr const char* kExamples =
    "examples:\n"
    "  echelon run -n 4 -- ./train                     4 ranks on this machine\n"
    "  echelon run -H a:8,b:8 -- ./train               16 ranks on two hosts, by ssh\n"
    "  echelon run --emulate 4x2:1gbit -- ./train      on a virtual cluster (as root)\n";

int number_of_ranks(const std::string& text) {
  constexpr int kMost = 65536;
  // CLI11 takes "-np 4" for "-n p".
  if (text == "p") throw std::invalid_argument("unknown option -np; the number of ranks is -n N");
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error == std::errc() && end == text.data() + text.size() && n >= 1 && n <= kMost) return n;
  throw std::invalid_argument(
      fmt::format("\"{}\" is no number of ranks from 1 to {}", text, kMost));
}

std::string existing_file(const std::string& path) {
  if (std::filesystem::exists(path) && !std::filesystem::is_directory(path)) return path;
  throw std::invalid_argument(fmt::format("there is no file \"{}\"", path));
}

void add_start_options(Command& cmd, Options& o) {
  cmd.option("-n N", "number of ranks (default: every slot, or 1)",
             into<int>(o.n, number_of_ranks));
  cmd.option("--map-by slot|host", "fill a host before the next, or take turns",
             into(o.placement,
                  one_of<Placement>({{"slot", Placement::kBySlot}, {"host", Placement::kByHost}})));
  cmd.option(
      "--bind none|core|socket",
      "bind ranks (default: to cores when there are enough; none: emulated hosts may use all, too)",
      into(o.bind, one_of<Bind>(
                       {{"none", Bind::kNone}, {"core", Bind::kCore}, {"socket", Bind::kSocket}})));
  cmd.option("--nics NAMES", "NICs of the ranks, e.g. eth0,eth1 (default: nearest of each)",
             into(o.nics));
  cmd.repeated("--env ENTRY", "NAME=VALUE for the ranks, or NAME to pass it on",
               [&o](const std::string& entry) { o.env.push_back(entry); });
  cmd.option("--interface NAME", "interface for bootstrap, by name or address",
             into(o.interface_name));
  cmd.flag("--mpi-dropin", "an MPI program: mpirun starts the ranks, Echelon does its collectives",
           o.mpi_dropin);
  cmd.option("--fabric FILE", "fabric file that overrides what is discovered", into(o.fabric));
}

void add_output_options(Command& cmd, Options& o) {
  const auto choose = [&o](run::Lines lines) { return [&o, lines] { o.lines = lines; }; };
  const Option tag =
      cmd.flag("--tag-output",
               "begin each line with [rank host]; the default where the output goes to a terminal",
               choose(run::Lines::kTagged));
  cmd.flag("--no-tag", "pass the bytes of the ranks on as they come",
           choose(run::Lines::kAsTheyCome))
      .excludes(tag);
  cmd.flag("--keep-going",
           "when a rank fails leave the others running; exit code 0 when any of them returns 0",
           o.keep_going);
  cmd.option("--timeout SECONDS", "end the run after that time",
             into<double>(o.timeout, parse_seconds));
}

void add_emulate_options(Command& cmd, Options& o) {
  cmd.option("--emulate SPEC",
             "virtual cluster: 4x2:1gbit, 3+1+2:1gbit, 2x2x2:1gbit/10gbit, 4x2:2x1gbit",
             into(o.emulate));
  cmd.flag("--no-fabric", "do not tell the ranks the cluster's racks and speeds", o.no_fabric);
  cmd.option("--shell COMMAND", "run this command once, on host0, instead of ranks", into(o.shell));
  cmd.flag_or_file(
      "--traffic", "-", o.traffic_file,
      "bytes per NIC and uplink afterwards: a table on standard error, or JSON in a file");
}

void print_traffic(const Options& o, const cluster::Traffic& traffic) {
  if (o.traffic_file == "-") {
    run::write_all(2, run::traffic_table(traffic));
    return;
  }
  cluster::write_file(o.traffic_file, run::traffic_json(traffic));
}

int run_on(const cluster::Cluster& cluster, const Options& o) {
  if (o.mpi_dropin) return run::run_mpi(o, cluster);
  return o.shell.empty() ? run::launch(run::make_plan(o, cluster))
                         : run::run_shell(cluster, o.shell);
}

int run_emulated(const Options& o) {
  cluster::Spec spec = cluster::parse_spec(o.emulate);
  spec.own_cores = o.bind != Bind::kNone;
  const cluster::Cluster cluster(std::move(spec));
  const cluster::Traffic before = cluster.traffic();
  const int code = run_on(cluster, o);
  if (!o.traffic_file.empty()) print_traffic(o, cluster.traffic() - before);
  return code;
}

int run_command(const Options& o) {
  run::validate(o);
  if (!o.emulate.empty()) return run_emulated(o);
  return o.mpi_dropin ? run::run_mpi(o) : run::launch(run::make_plan(o));
}

}  // namespace

void add_host_options(Command& cmd, Options& o) {
  cmd.option("-H,--hosts LIST", "hosts as NAME:SLOTS,...", into(o.hosts));
  cmd.option("--hostfile FILE", "a file with one host per line: NAME slots=N",
             into<std::string>(o.hostfile, existing_file));
  cmd.option("--launcher ssh|mpirun|srun", "what starts the agents (default: what the job has)",
             one_word(o.launcher, {"ssh", "mpirun", "srun"}));
  cmd.option("--ssh-command COMMAND",
             "what reaches a host (default: $ECHELON_RSH, or ssh -o BatchMode=yes)",
             into(o.ssh_command));
  cmd.option("--remote-echelon PATH", "of echelon there (default: as here)",
             into(o.remote_echelon));
  cmd.option("--check-timeout SECONDS",
             fmt::format("for every host to answer [{}]", o.check_timeout),
             into<double>(o.check_timeout, parse_seconds));
}

void add_run(Program& program, const std::vector<std::string>& after) {
  struct Given {
    Options options;
    bool agent = false, enter = false;
  };
  const auto given = std::make_shared<Given>();
  Command cmd = program.command("run", "start a program as ranks, here, on hosts, or emulated");
  add_start_options(cmd, given->options);
  add_host_options(cmd, given->options);
  add_output_options(cmd, given->options);
  add_emulate_options(cmd, given->options);
  // Started by the launcher and by the rsh agent only.
  cmd.internal_flag("--agent", given->agent);
  cmd.internal_flag("--enter", given->enter);
  cmd.ends_at_first_word();
  cmd.examples(kExamples);
  cmd.action([given, cmd, after] {
    if (given->agent) return run::agent_main();
    if (given->enter) return run::enter_main(after);
    std::vector<std::string>& words = given->options.program;
    words = cmd.rest();
    words.insert(words.end(), after.begin(), after.end());
    return run_command(given->options);
  });
}

}  // namespace echelon::tools
