// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "lib/base/error.h"

namespace echelon {
namespace {

// Ports that are derived from another number: below the range from which Linux takes the ports of
// outgoing connections (32768-60999).
constexpr int kTorchPorts = 16000;
constexpr int kSlurmPorts = 24000;
constexpr int kDerivedPorts = 8000;

class Variables {
 public:
  explicit Variables(const Lookup& lookup) : lookup_(lookup) {}

  // Empty counts as not set: shells and launchers clear variables that way.
  std::optional<std::string> text(const char* name) const {
    const char* const value = lookup_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  }

  std::string required(const char* name, const char* because) const {
    if (auto value = text(name)) return *value;
    throw invalid(fmt::format("{} is not set, but {} is: both are needed", name, because));
  }

  std::optional<int> number(const char* name, int least, int most) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    return parse(name, *value, least, most);
  }

  int required_number(const char* name, const char* because, int least, int most) const {
    return parse(name, required(name, because), least, most);
  }

 private:
  static int parse(const char* name, const std::string& value, int least, int most) {
    long long number = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc() || stop != end || number < least || number > most)
      throw invalid(
          fmt::format("{}=\"{}\" is not a number from {} to {}", name, value, least, most));
    return static_cast<int>(number);
  }

  const Lookup& lookup_;
};

constexpr int kMostRanks = 1 << 20;

// `rank` and `size` are the names that a launcher gives the two numbers.
Identity read_numbers(const Variables& variables, const char* rank, const char* size) {
  Identity identity;
  identity.size = variables.required_number(size, rank, 1, kMostRanks);
  identity.rank = variables.required_number(rank, size, 0, kMostRanks);
  if (identity.rank >= identity.size)
    throw invalid(
        fmt::format("{}={} is not below {}={}", rank, identity.rank, size, identity.size));
  return identity;
}

// "host:port", "[v6]:port".
void read_root(const Variables& variables, Identity& identity) {
  const std::string root = variables.required("ECHELON_ROOT", "ECHELON_RANK");
  const std::size_t colon = root.rfind(':');
  std::string host = root.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find_first_of(":[]") != host.npos)
    host.clear();
  int port = 0;
  if (colon != root.npos) {
    const char* const end = root.data() + root.size();
    const auto [stop, error] = std::from_chars(root.data() + colon + 1, end, port);
    if (error != std::errc() || stop != end) port = 0;
  }
  if (host.empty() || port < 1 || port > 65535)
    throw invalid(fmt::format("ECHELON_ROOT=\"{}\" is not host:port or [address]:port", root));
  identity.host = host;
  identity.port = static_cast<std::uint16_t>(port);
}

void read_secret(const Variables& variables, const std::string& job, Identity& identity) {
  const auto given = variables.text("ECHELON_SECRET");
  identity.secret =
      given ? parse_secret(*given, "ECHELON_SECRET")
            : derived_secret(fmt::format("{}|{}|{}", job, identity.host, identity.port));
}

std::uint16_t port_or(const Variables& variables, int derived) {
  return static_cast<std::uint16_t>(variables.number("ECHELON_PORT", 1, 65535).value_or(derived));
}

std::optional<Identity> from_echelon_run(const Variables& variables) {
  if (!variables.text("ECHELON_RANK") && !variables.text("ECHELON_SIZE")) return std::nullopt;
  Identity identity = read_numbers(variables, "ECHELON_RANK", "ECHELON_SIZE");
  if (identity.size == 1) return identity;
  read_root(variables, identity);
  identity.secret =
      parse_secret(variables.required("ECHELON_SECRET", "ECHELON_RANK"), "ECHELON_SECRET");
  return identity;
}

std::optional<Identity> from_torchrun(const Variables& variables) {
  if (!variables.text("RANK") && !variables.text("WORLD_SIZE")) return std::nullopt;
  Identity identity = read_numbers(variables, "RANK", "WORLD_SIZE");
  if (identity.size == 1) return identity;
  identity.host = variables.required("MASTER_ADDR", "WORLD_SIZE");
  const int master = variables.required_number("MASTER_PORT", "WORLD_SIZE", 1, 65535);
  // MASTER_PORT itself belongs to torch's store. The + 1 makes the result differ from it always.
  identity.port = port_or(variables, kTorchPorts + (master + 1) % kDerivedPorts);
  read_secret(
      variables,
      fmt::format("torchrun|{}|{}|{}", variables.text("TORCHELASTIC_RUN_ID").value_or("none"),
                  variables.text("TORCHELASTIC_RESTART_COUNT").value_or("0"), master),
      identity);
  return identity;
}

std::optional<Identity> from_open_mpi(const Variables& variables) {
  constexpr const char* kRank = "OMPI_COMM_WORLD_RANK";
  constexpr const char* kSize = "OMPI_COMM_WORLD_SIZE";
  if (!variables.text(kRank) && !variables.text(kSize)) return std::nullopt;
  Identity identity = read_numbers(variables, kRank, kSize);
  if (identity.size == 1 || !variables.text("ECHELON_ROOT")) return identity;
  read_root(variables, identity);
  read_secret(variables, "mpirun|" + variables.text("PMIX_NAMESPACE").value_or("none"), identity);
  return identity;
}

// A step of srun has a small number; the batch script and salloc's shell are no ranks, although
// they see SLURM_NTASKS and sometimes SLURM_PROCID.
std::optional<int> slurm_step(const Variables& variables) {
  constexpr long long kFirstSpecialStep = 0xfffffff0;
  const char* const name = variables.text("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  const auto value = variables.text(name);
  if (!value || !variables.text("SLURM_PROCID")) return std::nullopt;
  if (value->size() == 10 && *value >= std::to_string(kFirstSpecialStep)) return std::nullopt;
  return variables.number(name, 0, 0x7fffffff);
}

std::optional<Identity> from_slurm(const Variables& variables) {
  const auto step = slurm_step(variables);
  if (!step) return std::nullopt;
  const char* const size =
      variables.text("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  Identity identity = read_numbers(variables, "SLURM_PROCID", size);
  if (identity.size == 1) return identity;
  const int job = variables.required_number("SLURM_JOB_ID", "SLURM_PROCID", 1, 0x7fffffff);
  if (variables.text("ECHELON_ROOT")) {
    read_root(variables, identity);
  } else {
    const char* const list =
        variables.text("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    identity.host = first_slurm_host(variables.required(list, "SLURM_PROCID"));
    identity.port =
        port_or(variables, kSlurmPorts + static_cast<int>((job + 101LL * *step) % kDerivedPorts));
  }
  read_secret(variables, fmt::format("slurm|{}|{}", job, *step), identity);
  return identity;
}

}  // namespace

std::string first_slurm_host(const std::string& list) {
  const std::size_t stop = list.find_first_of("[,");
  std::string host = list.substr(0, stop);
  if (stop != list.npos && list[stop] == '[') {
    const std::size_t end = list.find_first_of("-,]", stop);
    const std::size_t close = list.find(']', stop);
    if (close == list.npos || end == stop + 1)
      throw invalid(
          fmt::format("node list \"{}\" has a bracket that holds nothing or does not end", list));
    host += list.substr(stop + 1, end - stop - 1);
    const std::size_t next = list.find(',', close);
    const std::string rest = list.substr(close + 1, next == list.npos ? next : next - close - 1);
    host += rest.empty() ? "" : first_slurm_host(rest);  // "rack[1-2]n[01-08]"
  }
  if (host.empty()) throw invalid(fmt::format("node list \"{}\" does not begin with a host", list));
  return host;
}

std::optional<Launch> read_environment(const Lookup& lookup) {
  const Variables variables(lookup);
  if (auto found = from_echelon_run(variables)) return Launch{*found, "echelon run"};
  if (auto found = from_torchrun(variables)) return Launch{*found, "torchrun"};
  if (auto found = from_open_mpi(variables)) return Launch{*found, "Open MPI"};
  if (auto found = from_slurm(variables)) return Launch{*found, "Slurm"};
  return std::nullopt;
}

}  // namespace echelon
