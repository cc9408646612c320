// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/bootstrap.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/bootstrap/pmix.h"

namespace echelon {
namespace {

Bootstrapped connect(const Identity& identity, const BootstrapOptions& options,
                     const std::string& source) {
  JoinOptions join_options;
  join_options.deadline = options.deadline;
  join_options.interface = options.interface;
  join_options.log = options.log;
  options.log(ECH_LOG_DEBUG,
              fmt::format("rank {} of {}, found by {}", identity.rank, identity.size, source));
  return {join(identity, join_options), source};
}

void check_rank(const BootstrapOptions& options, const char* with) {
  if (options.size < 1)
    throw invalid(
        fmt::format("size is {}: set rank and size together with {}", options.size, with));
  if (options.rank < 0 || options.rank >= options.size)
    throw invalid(fmt::format("rank is {}, with {} ranks it must be 0-{}", options.rank,
                              options.size, options.size - 1));
}

Bootstrapped by_unique_id(const BootstrapOptions& options) {
  check_rank(options, "unique_id");
  const UniqueId id = decode(*options.unique_id);
  return connect(Identity::with(id, options.rank, options.size), options, "unique id");
}

// What rank 0 hands to the others: an id, or zeros when it cannot listen, so that they do not wait
// for it in a collective call of somebody else.
struct Offer {
  ech_unique_id id{};
  std::optional<Error> failure;
};

Offer make_offer(int rank, const std::string& interface) {
  Offer offer;
  try {
    if (rank == 0) offer.id = encode(listen_for_ranks(interface));
  } catch (const Error& e) {
    offer.failure = e;
  }
  return offer;
}

void withdraw(const Offer& offer, int rank) {
  if (rank == 0 && !offer.failure) take_listener(decode(offer.id));
}

UniqueId accept_offer(const Offer& mine, const ech_unique_id& of_root) {
  if (mine.failure) throw *mine.failure;
  const ech_unique_id zeros{};
  if (std::memcmp(&of_root, &zeros, sizeof zeros) == 0)
    throw Error(ECH_ERR_PEER, "rank 0 could not listen for the other ranks; see its own error");
  return decode(of_root);
}

Bootstrapped by_allgather(const BootstrapOptions& options) {
  check_rank(options, "allgather");
  const Offer mine = make_offer(options.rank, options.interface);
  std::vector<ech_unique_id> all(static_cast<std::size_t>(options.size));
  const int failed =
      options.allgather(mine.id.bytes, all.data(), sizeof mine.id, options.allgather_context);
  if (failed != 0) {
    withdraw(mine, options.rank);
    throw invalid(
        fmt::format("the caller's allgather returned {} on rank {}", failed, options.rank));
  }
  return connect(Identity::with(accept_offer(mine, all[0]), options.rank, options.size), options,
                 "the caller's allgather");
}

ech_unique_id publish(Pmix& pmix, const Offer& mine, const BootstrapOptions& options) {
  const std::string bytes = pmix.from_root({mine.id.bytes, sizeof mine.id.bytes}, options.deadline);
  if (bytes.size() != ECH_UNIQUE_ID_BYTES)
    throw Error(ECH_ERR_SYSTEM, "PMIx gave a unique id of another size");
  ech_unique_id id;
  std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  return id;
}

Bootstrapped by_pmix(const BootstrapOptions& options) {
  Pmix& pmix = connect_pmix();
  const Identity launched = pmix.identity();
  const Offer mine = make_offer(launched.rank, options.interface);
  ech_unique_id of_root;
  try {
    of_root = publish(pmix, mine, options);
  } catch (const Error&) {
    withdraw(mine, launched.rank);
    throw;
  }
  return connect(Identity::with(accept_offer(mine, of_root), launched.rank, launched.size), options,
                 "PMIx");
}

bool has_meeting_point(const Launch& launch) {
  return launch.identity.size == 1 || !launch.identity.host.empty();
}

// A server is there when the launcher has told this process its name; asking the library itself
// would cost every lone process its start-up time.
bool pmix_offered(const Lookup& lookup) {
  return lookup("PMIX_NAMESPACE") != nullptr && lookup("PMIX_RANK") != nullptr;
}

Bootstrapped by_environment(const BootstrapOptions& options, const Lookup& lookup) {
  const auto launch = read_environment(lookup);
  if (!launch)
    throw invalid(
        "bootstrap \"env\" finds no variables of echelon run (ECHELON_RANK), torchrun (RANK), Open "
        "MPI (OMPI_COMM_WORLD_RANK) or Slurm (SLURM_PROCID with SLURM_STEP_ID)");
  if (!has_meeting_point(*launch))
    throw invalid(
        fmt::format("{} does not say where the ranks meet: use bootstrap \"pmix\", or set "
                    "ECHELON_ROOT to host:port",
                    launch->launcher));
  return connect(launch->identity, options, launch->launcher);
}

Bootstrapped by_whatever_there_is(const BootstrapOptions& options, const Lookup& lookup) {
  const auto launch = read_environment(lookup);
  if (launch && has_meeting_point(*launch))
    return connect(launch->identity, options, launch->launcher);
  if (pmix_offered(lookup)) return by_pmix(options);
  if (launch) return by_environment(options, lookup);
  return {join({}, {}), "alone"};
}

}  // namespace

Bootstrapped bootstrap(const BootstrapOptions& options) {
  if (options.unique_id != nullptr) return by_unique_id(options);
  if (options.allgather != nullptr) return by_allgather(options);
  const Lookup lookup = options.lookup ? options.lookup : [](const char*) { return nullptr; };
  if (options.mode == "auto") return by_whatever_there_is(options, lookup);
  if (options.mode == "env") return by_environment(options, lookup);
  if (options.mode == "pmix") return by_pmix(options);
  throw invalid(
      fmt::format("bootstrap is \"{}\", not \"env\", \"pmix\" or \"auto\"", options.mode));
}

}  // namespace echelon
