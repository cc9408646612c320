// SPDX-License-Identifier: Apache-2.0
#include "lib/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/time.h"
#include "lib/plan/recipe.h"

namespace echelon {
namespace {

using Setter = void (*)(Options&, std::string_view value);

struct Setting {
  OptionRow row;
  Setter set;  // throws std::string: what was expected
};

// Nothing when it is no finite number >= 0.
std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0)
    return {};
  return std::min(value, kForever);
}

double seconds(std::string_view text) {
  if (const auto value = number(text)) return *value;
  throw std::string("a number of seconds >= 0");
}

double positive_seconds(std::string_view text) {
  if (const auto value = number(text); value && *value > 0) return *value;
  throw std::string("a number of seconds > 0");
}

bool boolean(std::string_view text) {
  if (text != "0" && text != "1") throw std::string("0 or 1");
  return text == "1";
}

std::string one_of(std::string_view text, std::span<const std::string_view> choices) {
  std::string expected;
  for (std::string_view choice : choices) {
    if (text == choice) return std::string(text);
    expected += (expected.empty() ? "" : ", ") + std::string(choice);
  }
  throw "one of " + expected;
}

void set_bootstrap(Options& o, std::string_view v) {
  constexpr std::string_view kChoices[] = {"auto", "env", "pmix"};
  o.bootstrap = one_of(v, kChoices);
}

void set_single_copy(Options& o, std::string_view v) {
  constexpr std::string_view kChoices[] = {"auto", "on", "off"};
  o.single_copy = one_of(v, kChoices);
}

void set_log(Options& o, std::string_view v) {
  constexpr std::string_view kChoices[] = {"error", "warn", "info", "debug"};
  const std::string level = one_of(v, kChoices);
  for (int i = 0; i < 4; ++i)
    if (level == kChoices[i]) o.log_level = static_cast<ech_log_level>(ECH_LOG_ERROR + i);
}

void set_algorithm(Options& o, std::string_view v) {
  parse_recipe(v);
  o.algorithm = v;
}

constexpr Setting kSettings[] = {
    {{"ECHELON_ALGORITHM", "plan", "chosen by cost",
      "plan for every operation that it fits, e.g. native/ring@1MiB; see docs/plans.md"},
     set_algorithm},
    {{"ECHELON_BOOTSTRAP", "auto|env|pmix", "auto", "how the ranks find each other"},
     set_bootstrap},
    {{"ECHELON_CHECK", "0|1", "0",
      "compare before every operation what the ranks ask for; each then waits for all"},
     [](Options& o, std::string_view v) { o.check = boolean(v); }},
    {{"ECHELON_FABRIC", "path", "none", "TOML or JSON file that overrides the discovered fabric"},
     [](Options& o, std::string_view v) { o.fabric_file = v; }},
    {{"ECHELON_HEARTBEAT", "seconds", "5",
      "silence after which a rank is given up, while others wait for it"},
     [](Options& o, std::string_view v) { o.heartbeat = positive_seconds(v); }},
    {{"ECHELON_INTERFACE", "name or address", "of the default route",
      "network interface of the bootstrap and control connections"},
     [](Options& o, std::string_view v) { o.interface_name = v; }},
    {{"ECHELON_LOG", "error|warn|info|debug", "warn",
      "what is logged, to the callback or to standard error"},
     set_log},
    {{"ECHELON_MACHINE", "name", "the kernel's boot id",
      "the machine whose CPUs this rank uses, which other hosts may be on, too"},
     [](Options& o, std::string_view v) { o.machine = v; }},
    {{"ECHELON_NCCL", "path", "the one loaded, or libnccl.so.2", "NCCL library, 2.18 or newer"},
     [](Options& o, std::string_view v) { o.nccl = v; }},
    {{"ECHELON_NCCL_REGISTER", "0|1", "0",
      "register memory of ech_alloc on GPUs with NCCL; see docs/gpu.md for what that asks of "
      "calls"},
     [](Options& o, std::string_view v) { o.nccl_register = boolean(v); }},
    {{"ECHELON_NICS", "names", "the nearest",
      "comma-separated NICs that this rank uses, e.g. eth0 or mlx5_0"},
     [](Options& o, std::string_view v) { o.nics = v; }},
    {{"ECHELON_PROBE", "0|1", "0 (echelon run sets 1)",
      "measure latency and bandwidth of every tier at creation"},
     [](Options& o, std::string_view v) { o.probe = boolean(v); }},
    {{"ECHELON_SINGLE_COPY", "auto|on|off", "auto",
      "copy other local ranks' memory with process_vm_readv; auto: where that is found quicker"},
     set_single_copy},
    {{"ECHELON_SPIN", "seconds", "200e-6",
      "busy waiting before a rank sleeps; less where a plan waits for the network"},
     [](Options& o, std::string_view v) { o.spin = seconds(v); }},
    {{"ECHELON_STALL", "seconds", "2",
      "time without progress after which the ranks compare what they are doing"},
     [](Options& o, std::string_view v) { o.stall = positive_seconds(v); }},
    {{"ECHELON_TIMELINE", "path", "none",
      "JSON file for what every rank did, as Perfetto reads it; see docs/timeline.md"},
     [](Options& o, std::string_view v) { o.timeline = v; }},
    {{"ECHELON_TIMEOUT", "seconds", "300", "deadline of an operation and of creation"},
     [](Options& o, std::string_view v) { o.timeout = positive_seconds(v); }},
    {{"ECHELON_TUNING", "path", "none",
      "what echelon tune has measured on these machines, which wins over the cost model"},
     [](Options& o, std::string_view v) { o.tuning_file = v; }},
    {{"ECHELON_UCX_TLS", "list", "all but GPU ones", "UCX transports, as in UCX_TLS"},
     [](Options& o, std::string_view v) { o.ucx_tls = v; }},
    {{"SLURM_TOPOLOGY_ADDR", "path", "set by Slurm", "switches above this host: they make racks"},
     [](Options& o, std::string_view v) { o.slurm_address = v; }},
    {{"SLURM_TOPOLOGY_ADDR_PATTERN", "path", "set by Slurm", "what the parts of that path are"},
     [](Options& o, std::string_view v) { o.slurm_pattern = v; }},
};

constexpr std::string_view kPrefix = "ECHELON_";

// What launchers and bootstrap say, and the tools read: docs/bootstrap.md, docs/run.md.
constexpr std::string_view kOfLaunchers[] = {
    "ECHELON_HOSTS", "ECHELON_LOCAL_RANK", "ECHELON_LOCAL_SIZE", "ECHELON_PORT", "ECHELON_RANK",
    "ECHELON_ROOT",  "ECHELON_RSH",        "ECHELON_SECRET",     "ECHELON_SIZE"};

std::vector<std::string_view> known_variables() {
  std::vector<std::string_view> known(std::begin(kOfLaunchers), std::end(kOfLaunchers));
  for (const Setting& setting : kSettings) known.push_back(setting.row.variable);
  return known;
}

// How many letters have to be put in, taken out or replaced.
std::size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

// One that differs in few letters, or goes on where `name` ends.
std::string nearest(std::string_view name) {
  constexpr std::size_t kFew = 3;
  std::string_view best;
  std::size_t least = kFew + 1;
  for (std::string_view known : known_variables()) {
    const bool cut = known.starts_with(name) && name.size() > kPrefix.size() + 1;
    const std::size_t apart = cut ? 1 : letters_apart(name, known);
    if (apart >= least) continue;
    least = apart;
    best = known;
  }
  return std::string(best);
}

}  // namespace

std::vector<UnknownVariable> unknown_variables(const char* const* environment) {
  std::vector<UnknownVariable> unknown;
  const std::vector<std::string_view> known = known_variables();
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment, name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || std::ranges::find(known, name) != known.end()) continue;
    unknown.push_back({std::string(name), nearest(name)});
  }
  return unknown;
}

Options read_options(const Lookup& lookup) {
  Options options;
  for (const Setting& setting : kSettings) {
    const std::string variable(setting.row.variable);
    const char* value = lookup(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    try {
      setting.set(options, value);
    } catch (const std::string& expected) {
      throw invalid(fmt::format("{} is \"{}\", expected {}", variable, value, expected));
    } catch (const Error& e) {
      throw invalid(fmt::format("{}: {}", variable, e.what()));
    }
  }
  for (const char* variable : {"UCX_RX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE"})
    if (const char* value = lookup(variable)) options.ucx_receive_size = value;
  return options;
}

// UCX does not check whether what another rank sends at once fits into the buffer for it.
std::string settings_to_agree_on(const Options& o) {
  return fmt::format(
      "plan \"{}\", probe {}, single copy {}, timeline {}, registered memory {}, "
      "UCX_TCP_RX_SEG_SIZE \"{}\"",
      o.algorithm, o.probe ? 1 : 0, o.single_copy, o.timeline.empty() ? "off" : "on",
      o.nccl_register ? 1 : 0, o.ucx_receive_size);
}

std::span<const OptionRow> option_table() {
  static const std::vector<OptionRow> rows = [] {
    std::vector<OptionRow> all;
    for (const Setting& setting : kSettings) all.push_back(setting.row);
    return all;
  }();
  return rows;
}

}  // namespace echelon
