// SPDX-License-Identifier: Apache-2.0
#include "tools/run.h"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Error.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <charconv>
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

void add_start_options(CLI::App& cmd, Options& o) {
  add_parsed<int>(cmd, "-n", o.n, number_of_ranks)
      ->description("number of ranks (default: every slot, or 1)");
  add_parsed(cmd, "--map-by", o.placement,
             one_of<Placement>({{"slot", Placement::kBySlot}, {"host", Placement::kByHost}}))
      ->description("fill a host before the next, or take turns")
      ->option_text("slot|host");
  add_parsed(
      cmd, "--bind", o.bind,
      one_of<Bind>({{"none", Bind::kNone}, {"core", Bind::kCore}, {"socket", Bind::kSocket}}))
      ->description("bind ranks (default: to cores when there are enough)")
      ->option_text("none|core|socket");
  cmd.add_option("--nics", o.nics, "NICs of the ranks, e.g. eth0,eth1 (default: nearest of each)");
  cmd.add_option("--env", o.env, "NAME=VALUE for the ranks, or NAME to pass it on")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  cmd.add_option("--interface", o.interface_name, "interface for bootstrap, by name or address");
  cmd.add_flag("--mpi-dropin", o.mpi_dropin,
               "an MPI program: mpirun starts the ranks, Echelon does its collectives");
  cmd.add_option("--fabric", o.fabric, "fabric file that overrides what is discovered");
}

void add_output_options(CLI::App& cmd, Options& o) {
  const auto choose = [&o](run::Lines lines) { return [&o, lines] { o.lines = lines; }; };
  CLI::Option* const tag = cmd.add_flag_callback("--tag-output", choose(run::Lines::kTagged),
                                                 "begin each line with [rank host]; the default "
                                                 "where the output goes to a terminal");
  cmd.add_flag_callback("--no-tag", choose(run::Lines::kAsTheyCome),
                        "pass the bytes of the ranks on as they come")
      ->excludes(tag);
  cmd.add_flag(
      "--keep-going", o.keep_going,
      "when a rank fails leave the others running; exit code 0 when any of them returns 0");
  add_parsed<double>(cmd, "--timeout", o.timeout, parse_seconds)
      ->description("end the run after this many seconds");
}

void add_emulate_options(CLI::App& cmd, Options& o) {
  cmd.add_option("--emulate", o.emulate,
                 "virtual cluster: 4x2:1gbit, 3+1+2:1gbit, 2x2x2:1gbit/10gbit, 4x2:2x1gbit");
  cmd.add_flag("--no-fabric", o.no_fabric, "do not tell the ranks the cluster's racks and speeds");
  cmd.add_option("--shell", o.shell, "run this command once, on host0, instead of ranks");
  cmd.add_flag("--traffic{-}", o.traffic_file,
               "bytes per NIC and uplink afterwards; --traffic=FILE: as JSON");
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
  const cluster::Cluster cluster(cluster::parse_spec(o.emulate));
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

void add_host_options(CLI::App& cmd, Options& o) {
  cmd.add_option("-H,--hosts", o.hosts, "hosts as NAME:SLOTS,...");
  cmd.add_option("--hostfile", o.hostfile, "a file with one host per line: NAME slots=N")
      ->check(CLI::ExistingFile);
  cmd.add_option("--launcher", o.launcher, "ssh, mpirun or srun (default: what the job has)")
      ->check(CLI::IsMember({"ssh", "mpirun", "srun"}));
  cmd.add_option("--ssh-command", o.ssh_command,
                 "what reaches a host (default: $ECHELON_RSH, or ssh -o BatchMode=yes)");
  cmd.add_option("--remote-echelon", o.remote_echelon, "path of echelon there (default: as here)");
  add_parsed<double>(cmd, "--check-timeout", o.check_timeout, parse_seconds)
      ->description(fmt::format("seconds for every host to answer [{}]", o.check_timeout));
}

void add_run(CLI::App& app, const std::vector<std::string>& program) {
  CLI::App* cmd =
      app.add_subcommand("run", "start a program as ranks, here, on hosts, or emulated");
  const auto options = std::make_shared<Options>();
  const auto agent = std::make_shared<bool>(false), enter = std::make_shared<bool>(false);
  add_start_options(*cmd, *options);
  add_host_options(*cmd, *options);
  add_output_options(*cmd, *options);
  add_emulate_options(*cmd, *options);
  // Started by the launcher and by the rsh agent only.
  cmd->add_flag("--agent", *agent)->group("");
  cmd->add_flag("--enter", *enter)->group("");
  cmd->prefix_command();
  cmd->footer(kExamples);
  cmd->callback([=] {
    if (*agent) throw CLI::RuntimeError(run::agent_main());
    if (*enter) throw CLI::RuntimeError(run::enter_main(program));
    options->program = cmd->remaining();
    options->program.insert(options->program.end(), program.begin(), program.end());
    throw CLI::RuntimeError(run_command(*options));
  });
}

}  // namespace echelon::tools
