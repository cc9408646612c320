// SPDX-License-Identifier: Apache-2.0
// The communicator's one entrance, in every way but PMIx (tests/multi/pmix_test).
#include "lib/bootstrap/bootstrap.h"

#include <barrier>
#include <cstring>
#include <map>

#include "tests/support/ranks.h"
#include "tests/unit/bootstrap/support.h"

namespace echelon {
namespace {

using test::expect_error;
using test::in;
using test::kLong;
using test::milliseconds;

constexpr milliseconds kSecond{1000};

BootstrapOptions options_for(int rank, int size) {
  BootstrapOptions options;
  options.rank = rank;
  options.size = size;
  options.interface = "lo";
  options.deadline = in(kLong);
  return options;
}

void use(const Bootstrapped& found, const std::string& source) {
  EXPECT_EQ(found.source, source);
  const std::string mine = std::to_string(found.control->rank());
  const auto all = found.control->allgather(mine, in(kLong));
  for (std::size_t rank = 0; rank < all.size(); ++rank) EXPECT_EQ(all[rank], std::to_string(rank));
  found.control->close(in(kLong));
}

TEST(Bootstrap, UniqueId) {
  const ech_unique_id id = encode(listen_for_ranks("lo"));
  test::run_threads(3, [&](int rank) {
    BootstrapOptions options = options_for(rank, 3);
    options.unique_id = &id;
    use(bootstrap(options), "unique id");
  });
}

// The caller's function, among threads.
struct Exchange {
  explicit Exchange(int size) : all(size), arrived(size) {}
  std::vector<ech_unique_id> all;
  std::barrier<> arrived;
  int result = 0;
};

struct Place {
  Exchange* exchange;
  int rank;
};

int gather(const void* send, void* recv, std::size_t bytes, void* context) {
  const auto& place = *static_cast<const Place*>(context);
  EXPECT_EQ(bytes, sizeof(ech_unique_id));
  std::memcpy(&place.exchange->all[place.rank], send, bytes);
  place.exchange->arrived.arrive_and_wait();
  std::memcpy(recv, place.exchange->all.data(), bytes * place.exchange->all.size());
  return place.exchange->result;
}

TEST(Bootstrap, CallersAllgather) {
  Exchange exchange(4);
  test::run_threads(4, [&](int rank) {
    Place place{&exchange, rank};
    BootstrapOptions options = options_for(rank, 4);
    options.allgather = gather;
    options.allgather_context = &place;
    use(bootstrap(options), "the caller's allgather");
  });
}

TEST(Bootstrap, CallersAllgatherFails) {
  Exchange exchange(2);
  exchange.result = 7;
  test::run_threads(2, [&](int rank) {
    Place place{&exchange, rank};
    BootstrapOptions options = options_for(rank, 2);
    options.allgather = gather;
    options.allgather_context = &place;
    expect_error(ECH_ERR_INVALID, {"allgather returned 7"}, kSecond, [&] { bootstrap(options); });
  });
}

TEST(Bootstrap, RootThatCannotListenDoesNotLeaveTheOthersWaiting) {
  Exchange exchange(2);
  test::run_threads(2, [&](int rank) {
    Place place{&exchange, rank};
    BootstrapOptions options = options_for(rank, 2);
    options.allgather = gather;
    options.allgather_context = &place;
    if (rank == 0) options.interface = "nosuch7";
    expect_error(rank == 0 ? ECH_ERR_INVALID : ECH_ERR_PEER, {rank == 0 ? "nosuch7" : "rank 0"},
                 kSecond, [&] { bootstrap(options); });
  });
}

Lookup look_up(const std::map<std::string, std::string>& variables) {
  return [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(Bootstrap, EnvironmentOfEchelonRun) {
  const int port = listen_at("127.0.0.1", 0, "").address.port();
  for (const char* mode : {"auto", "env"}) {
    test::run_processes(4, [&](int rank) {
      const std::map<std::string, std::string> variables = {
          {"ECHELON_RANK", std::to_string(rank)},
          {"ECHELON_SIZE", "4"},
          {"ECHELON_ROOT", "127.0.0.1:" + std::to_string(port)},
          {"ECHELON_SECRET", std::string(64, '7')}};
      BootstrapOptions options = options_for(0, 0);
      options.mode = mode;
      options.lookup = look_up(variables);
      const Bootstrapped found = bootstrap(options);
      EXPECT_EQ(found.control->rank(), rank);
      use(found, "echelon run");
    });
  }
}

TEST(Bootstrap, EnvironmentOfTorchrunWhileTheMasterPortIsTaken) {
  const Listener store = listen_at("127.0.0.1", 0, "");  // as torchrun's agent does
  test::run_processes(2, [&](int rank) {
    const std::map<std::string, std::string> variables = {
        {"RANK", std::to_string(rank)},
        {"WORLD_SIZE", "2"},
        {"LOCAL_RANK", std::to_string(rank)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(store.address.port())}};
    BootstrapOptions options = options_for(0, 0);
    options.lookup = look_up(variables);
    use(bootstrap(options), "torchrun");
  });
}

TEST(Bootstrap, AloneWhenNothingIsSet) {
  const Bootstrapped found = bootstrap(options_for(0, 0));
  EXPECT_EQ(found.control->size(), 1);
  EXPECT_EQ(found.source, "alone");
}

TEST(Bootstrap, WrongOptionsAreNamed) {
  const auto fails = [](const BootstrapOptions& options, const std::string& word) {
    expect_error(ECH_ERR_INVALID, {word}, kSecond, [&] { bootstrap(options); });
  };
  BootstrapOptions options = options_for(0, 0);
  options.mode = "magic";
  fails(options, "magic");
  options.mode = "env";
  fails(options, "ECHELON_RANK");
  const std::map<std::string, std::string> mpi = {{"OMPI_COMM_WORLD_RANK", "0"},
                                                  {"OMPI_COMM_WORLD_SIZE", "2"}};
  options.lookup = look_up(mpi);
  fails(options, "ECHELON_ROOT");
  const ech_unique_id zeros{};
  options = options_for(0, 2);
  options.unique_id = &zeros;
  fails(options, "unique id");
  options.size = 0;
  fails(options, "size is 0");
  options = options_for(2, 2);
  options.unique_id = &zeros;
  fails(options, "rank is 2");
}

}  // namespace
}  // namespace echelon
