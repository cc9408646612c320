// SPDX-License-Identifier: Apache-2.0
// What shared memory refuses, and the allocations that ranks can map.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "lib/base/fd.h"
#include "transports/shm/address.h"
#include "transports/shm/choose.h"
#include "transports/shm/peer_memory.h"
#include "transports/shm/rounds.h"
#include "transports/shm/segment.h"
#include "transports/shm/shared_alloc.h"
#include "transports/shm/shm_group.h"

namespace echelon {
namespace {

// The error of `action`, as "code: message".
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return std::to_string(e.code()) + ": " + e.what();
  }
  return "";
}

std::string connect_error(const std::string& peer, const ShmOptions& options = {}) {
  return error_of([&] {
    auto medium = make_shm_group(options);
    const std::string members[] = {medium->address(), peer};
    medium->connect(0, members);
  });
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

bool is_mapped(const std::byte* page) {
  unsigned char in_core = 0;
  return mincore(const_cast<std::byte*>(page), 4096, &in_core) == 0;
}

TEST(ShmErrors, AddressesAreChecked) {
  expect_contains(connect_error(""), "shared memory address");
  const std::string good = make_shm_group()->address();
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_NE(connect_error(good.substr(0, n)), "") << n << " bytes of an address";
  EXPECT_NE(connect_error(good + "x"), "");
  shm::Address nobody = shm::Address::parse(good);
  nobody.pid = 0;
  expect_contains(connect_error(nobody.pack()), "pid 0");
}

TEST(ShmErrors, AnotherHostOrPidNamespaceIsNamed) {
  const auto peer = make_shm_group();
  std::string address = peer->address();
  address[5] ^= 1;  // in the host's identity, which comes first
  expect_contains(connect_error(address), "on another host");
  address = peer->address();
  ByteReader reader(address, "address");
  const std::size_t host = 4 + reader.text().size();
  address[host] ^= 1;
  expect_contains(connect_error(address), "pid namespace");
  address[host] ^= 1;
  address[host + 8] ^= 1;
  expect_contains(connect_error(address), "network namespace");
}

TEST(ShmErrors, AMemberThatHasGoneIsNamed) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string address = make_shm_group()->address();
    _exit(write(ends[1], address.data(), address.size()) < 0);
  }
  char bytes[256];
  const ssize_t n = read(ends[0], bytes, sizeof bytes);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ends[0]);
  close(ends[1]);
  const std::string error = connect_error({bytes, static_cast<std::size_t>(n)});
  expect_contains(error, std::to_string(ECH_ERR_PEER) + ": shared memory of pid " +
                             std::to_string(child) + ": that rank has ended or left");
}

TEST(ShmErrors, SettingsMustAgree) {
  ShmOptions other;
  other.shape.slot_bytes = 8192;
  const auto peer = make_shm_group(other);
  expect_contains(connect_error(peer->address()), "not the same settings");
  other.shape.lanes = 0;
  expect_contains(error_of([&] { make_shm_group(other); }), "0 lanes, expected 1 to 64");
  other.shape = {8, 1000};
  expect_contains(error_of([&] { make_shm_group(other); }), "multiple of 4096");
}

TEST(PeerMemory, ADeadMemberIsAPeerError) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  shm::PeerMemory memory({static_cast<std::uint32_t>(child), static_cast<std::uint32_t>(getpid())});
  std::uint64_t word = 42, read = 0;
  const auto address = reinterpret_cast<std::uint64_t>(&word);
  auto* out = reinterpret_cast<std::byte*>(&read);
  EXPECT_EQ(memory.read(0, address, out, sizeof read), ECH_ERR_PEER);
  EXPECT_EQ(memory.read(1, 8, out, sizeof read), ECH_ERR_SYSTEM);
  EXPECT_EQ(memory.read(1, address, out, sizeof read), ECH_OK);
  EXPECT_EQ(read, word);
}

// Our own allocations, as another rank would map them.
class OwnMemory : public testing::Test {
 protected:
  using Shared = std::unique_ptr<std::byte, decltype(&shared_free)>;
  static Shared allocate(std::size_t bytes = 4096) {
    return {static_cast<std::byte*>(shared_alloc(bytes)), shared_free};
  }
  static shm::Shown shown(const Shared& memory) {
    const SharedRange range = find_shared(memory.get(), 1).value();
    return {range.id, range.offset, static_cast<std::uint32_t>(range.fd)};
  }
  const std::byte* map(const shm::Shown& shown, std::size_t offset = 0, std::size_t bytes = 1) {
    status_ = ECH_OK;
    return memory_.map(0, shown, {offset, bytes}, status_);
  }

  shm::PeerMemory memory_{std::vector<std::uint32_t>(512, static_cast<std::uint32_t>(getpid()))};
  ech_status status_ = ECH_OK;
};

TEST_F(OwnMemory, IsMappedWithinItsBounds) {
  const Shared memory = allocate(8192);
  memory.get()[8191] = std::byte{7};
  shm::Shown half = shown(memory);
  half.at = 4096;
  const std::byte* last = map(half, 4095, 1);
  ASSERT_NE(last, nullptr);
  EXPECT_NE(last, memory.get() + 8191);
  EXPECT_EQ(*last, std::byte{7});
  for (const shm::PeerMemory::Range beyond :
       {shm::PeerMemory::Range{4095, 2}, {4097, 0}, {0, SIZE_MAX}, {SIZE_MAX, 1}}) {
    EXPECT_EQ(map(half, beyond.offset, beyond.bytes), nullptr);
    EXPECT_EQ(status_, ECH_ERR_SYSTEM);
  }
  half.at = SIZE_MAX;
  EXPECT_EQ(map(half, 0, 1), nullptr);
}

// A member that frees while others still use it breaks the contract, but nobody faults.
TEST_F(OwnMemory, ThatWasFreedIsNotMistakenForWhatTookItsDescriptor) {
  Shared memory = allocate(1 << 20);
  const shm::Shown gone = shown(memory);
  memory.reset();
  EXPECT_EQ(map(gone), nullptr);
  EXPECT_EQ(status_, ECH_ERR_SYSTEM);
  const Shared next = allocate();
  ASSERT_EQ(shown(next).fd, gone.fd);
  EXPECT_EQ(map(gone), nullptr);
  EXPECT_NE(map(shown(next)), nullptr);
}

TEST_F(OwnMemory, ThatIsNoAllocationIsRefused) {
  const Fd plain(memfd_create("echelon-alloc-5", 0));
  ASSERT_EQ(ftruncate(plain.get(), 4096), 0);
  EXPECT_EQ(map({5, 0, static_cast<std::uint32_t>(plain.get())}), nullptr) << "not sealed";
}

TEST_F(OwnMemory, ThatWasFreedIsGivenBackThoughOthersHaveItMapped) {
  Shared memory = allocate(1 << 20);
  std::memset(memory.get(), 1, 1 << 20);
  const Fd file(dup(static_cast<int>(shown(memory).fd)));
  const std::byte* mapped = map(shown(memory), 0, 1 << 20);
  ASSERT_NE(mapped, nullptr);
  memory.reset();
  struct stat info {};
  ASSERT_EQ(fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
  EXPECT_EQ(mapped[(1 << 20) - 1], std::byte{0});
}

TEST_F(OwnMemory, ForkedProcessDoesNotTakeItAway) {
  const Shared memory = allocate();
  memory.get()[0] = std::byte{7};
  const pid_t child = fork();
  if (child == 0) {
    shared_free(memory.get());
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(memory.get()[0], std::byte{7});
}

// In turns, as a program with many buffers uses them: none is mapped twice.
TEST_F(OwnMemory, StaysMappedUntilThereIsTooMuch) {
  const std::size_t most = memory_.most_mappings();
  std::vector<Shared> buffers;
  std::vector<const std::byte*> mapped;
  for (std::size_t i = 0; i < most; ++i) {
    buffers.push_back(allocate());
    mapped.push_back(map(shown(buffers.back())));
  }
  for (std::size_t i = 0; i < most; ++i) EXPECT_EQ(map(shown(buffers[i])), mapped[i]) << i;
  EXPECT_EQ(map(shown(buffers[0])), mapped[0]);
  const Shared more = allocate();
  ASSERT_NE(map(shown(more)), nullptr);  // in the place of the second, used longest ago
  EXPECT_TRUE(is_mapped(mapped[0]));
  EXPECT_FALSE(is_mapped(mapped[1]));
}

TEST(PeerMemory, MapsForManyBuffers) {
  EXPECT_GE(shm::PeerMemory({1, 2, 3, 4, 5, 6, 7, 8}).most_mappings(), 1024u);
}

TEST(PeerMemory, AnAllocationOfADeadMemberIsAPeerError) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  shm::PeerMemory memory({static_cast<std::uint32_t>(child)});
  ech_status status = ECH_OK;
  EXPECT_EQ(memory.map(0, {2, 0, 3}, {0, 1}, status), nullptr);
  EXPECT_EQ(status, ECH_ERR_PEER) << "a zombie";
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(memory.map(0, {2, 0, 3}, {0, 1}, status), nullptr);
  EXPECT_EQ(status, ECH_ERR_PEER);
}

TEST(SharedAlloc, FindsWhatItGave) {
  int local = 0;
  EXPECT_FALSE(find_shared(&local, sizeof local));
  auto* memory = static_cast<std::byte*>(shared_alloc(10000));
  std::memset(memory, 1, 10000);
  const auto range = find_shared(memory + 100, 9900);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->offset, 100u);
  EXPECT_GT(range->id, 1u);
  EXPECT_TRUE(find_shared(memory, 12288)) << "whole pages";
  EXPECT_FALSE(find_shared(memory, 12289));
  EXPECT_FALSE(find_shared(memory - 1, 1));
  EXPECT_FALSE(find_shared(memory + 1, SIZE_MAX));
  shared_free(memory);
  EXPECT_FALSE(find_shared(memory, 1));
  expect_contains(error_of([&] { shared_free(memory); }), "no shared allocation");
  expect_contains(error_of([] { shared_alloc(SIZE_MAX); }), "too large");
  shared_free(nullptr);
  shared_free(shared_alloc(0));
}

TEST(Choose, FollowsTheThresholds) {
  using shm::Variant;
  const shm::Thresholds t{.one_shot = 100, .one_shot_pair = 200, .read = 900};
  const auto variant = [&](GroupAction action, std::size_t bytes, int members, bool can) {
    return shm::choose({action, bytes, members, can}, t);
  };
  EXPECT_EQ(variant(GroupAction::kAllreduce, 100, 8, true), Variant::kOneShot);
  EXPECT_EQ(variant(GroupAction::kAllreduce, 101, 8, true), Variant::kStaged);
  EXPECT_EQ(variant(GroupAction::kAllreduce, 200, 2, true), Variant::kOneShot);
  EXPECT_EQ(variant(GroupAction::kAllgather, 8, 2, true), Variant::kStaged);
  EXPECT_EQ(variant(GroupAction::kAllgather, 0, 2, true), Variant::kOneShot);
  EXPECT_EQ(variant(GroupAction::kAllgather, 900, 2, true), Variant::kStaged);
  EXPECT_EQ(variant(GroupAction::kAllreduce, 900, 2, true), Variant::kRead);
  EXPECT_EQ(variant(GroupAction::kReduceScatter, 899, 4, true), Variant::kStaged);
  EXPECT_EQ(variant(GroupAction::kReduceScatter, 900, 4, true), Variant::kRead);
  EXPECT_EQ(variant(GroupAction::kReduceScatter, 900, 4, false), Variant::kStaged);
}

// In slots of 512 KiB, KiB: two ranks have 256 of a round each, which leave their cores' caches.
TEST(Rounds, AreFewOfTwoAndMoreOfOthers) {
  using shm::Variant;
  const auto block = [](GroupAction action, int members, std::size_t share) {
    const shm::Question call{action, share * members << 10, members, false};
    return shm::block_of_round(call, Variant::kStaged, share << 10, 512 << 10) >> 10;
  };
  EXPECT_EQ(block(GroupAction::kAllreduce, 2, 511), 128u);
  EXPECT_EQ(block(GroupAction::kAllreduce, 2, 512), 256u);
  EXPECT_EQ(block(GroupAction::kAllreduce, 8, 1023), 32u);
  EXPECT_EQ(block(GroupAction::kAllreduce, 8, 1024), 64u);
  EXPECT_EQ(block(GroupAction::kAllreduce, 8, 32), 16u) << "two rounds";
  EXPECT_EQ(block(GroupAction::kAllreduce, 8, 15), 32u) << "too little for two";
  EXPECT_EQ(block(GroupAction::kAllreduce, 4, 64), 32u);
  EXPECT_EQ(block(GroupAction::kAllreduce, 2, 64), 128u);
  EXPECT_EQ(block(GroupAction::kReduceScatter, 8, 64), 64u) << "nobody gathers";
  EXPECT_EQ(block(GroupAction::kAllgather, 8, 64), 512u) << "the slot has one owner's block";
  EXPECT_EQ(shm::SegmentShape{}.slot_bytes, 512u << 10);
}

// KiB: one copies in while the other copies out.
TEST(Rounds, AreSmallWhereOneOfTwoOwnsAll) {
  using shm::Variant;
  const auto block = [](GroupAction action, int members, std::size_t share, std::size_t total) {
    const shm::Question call{action, total << 10, members, false};
    return shm::block_of_round(call, Variant::kStaged, share << 10, 512 << 10) >> 10;
  };
  EXPECT_EQ(block(GroupAction::kAllgather, 2, 31, 31), 512u) << "a single round";
  EXPECT_EQ(block(GroupAction::kAllgather, 2, 32, 32), 16u);
  EXPECT_EQ(block(GroupAction::kAllgather, 2, 1024, 1024), 64u);
  EXPECT_EQ(block(GroupAction::kReduceScatter, 2, 32, 32), 16u);
  EXPECT_EQ(block(GroupAction::kReduceScatter, 2, 64, 64), 32u);
  EXPECT_EQ(block(GroupAction::kReduceScatter, 2, 1024, 1024), 64u);
  EXPECT_EQ(block(GroupAction::kAllgather, 2, 64, 128), 512u) << "both own and read";
  EXPECT_EQ(block(GroupAction::kAllgather, 4, 1024, 1024), 512u) << "more share cores";
}

TEST(Rounds, AreTwoOfOneOwnerOfWhatIsNotEven) {
  for (const std::size_t share : {65537, 70001, 100001})
    for (const GroupAction action : {GroupAction::kAllgather, GroupAction::kReduceScatter}) {
      const shm::Question call{action, share, 2, false};
      const std::size_t block = shm::block_of_round(call, shm::Variant::kStaged, share, 512 << 10);
      EXPECT_LT(block, share);
      EXPECT_GE(2 * block, share);
      EXPECT_EQ(block % shm::kLine, 0u);
    }
  const shm::Question call{GroupAction::kReduceScatter, 1 << 20, 2, false};
  EXPECT_EQ(shm::block_of_round(call, shm::Variant::kStaged, 1 << 20, 64 << 10), 32u << 10)
      << "half of a slot";
}

// Of an allreduce, KiB, where the third-level cache is so large.
TEST(Rounds, StayInTheCache) {
  const auto slot = [](std::size_t cache, std::size_t bytes, int members = 2) {
    const shm::Question call{GroupAction::kAllreduce, bytes << 10, members, false};
    return shm::slot_in_use(call, {.cache = cache << 10}, 512 << 10) >> 10;
  };
  EXPECT_EQ(slot(8 << 10, 1 << 10), 128u);
  EXPECT_EQ(slot(8 << 10, 8 << 10), 512u) << "does not fit anyway";
  EXPECT_EQ(slot(8 << 10, 1 << 10, 4), 256u);
  EXPECT_EQ(slot(8 << 10, 64 << 10, 4), 256u);
  EXPECT_EQ(slot(32 << 10, 1 << 10, 4), 512u);
  EXPECT_EQ(slot(2 << 10, 1 << 10), 64u);
  EXPECT_EQ(slot(32 << 10, 1 << 10), 512u);
  EXPECT_EQ(shm::slot_in_use({GroupAction::kAllreduce, 1 << 20, 2, false}, {}, 512 << 10),
            512u << 10);
  EXPECT_EQ(
      shm::slot_in_use({GroupAction::kAllgather, 1 << 20, 4, false}, {.cache = 8 << 20}, 512 << 10),
      512u << 10);
}

// KiB, in slots of 512: how many places small rounds go through.
TEST(Rounds, GoFromPlaceToPlace) {
  const auto places = [](std::size_t round, int members, int lanes, std::size_t slot = 512) {
    return shm::places_in_slot({round << 10, members, lanes}, slot << 10).count;
  };
  EXPECT_EQ(places(1, 2, 1), 16u);
  EXPECT_EQ(places(64, 2, 1), 8u);
  EXPECT_EQ(places(96, 2, 1), 4u) << "a power of two of them";
  EXPECT_EQ(places(512, 2, 1), 1u);
  EXPECT_EQ(places(64, 2, 1, 128), 2u) << "a small cache";
  EXPECT_EQ(places(16, 2, 8), 8u) << "other lanes are other places";
  EXPECT_EQ(places(16, 2, 64), 1u);
  EXPECT_EQ(places(64, 4, 1), 4u);
  EXPECT_EQ(places(64, 8, 1), 1u);
  EXPECT_EQ(places(64, 256, 8), 1u);
}

TEST(Rounds, KeepTheirPlaceWithinTheSlot) {
  const shm::Places places = shm::places_in_slot({96 << 10, 2, 1}, 512 << 10);
  EXPECT_EQ(places.at(0), places.at(1)) << "slots of either parity";
  EXPECT_NE(places.at(0), places.at(2));
  EXPECT_EQ(places.at(0), places.at(8));
  for (std::uint64_t round = 0; round < 100; ++round)
    EXPECT_LE(places.at(round) + (96 << 10), std::size_t{512} << 10);
}

TEST(Rounds, AreTwoOfWhatIsNotEven) {
  for (const std::size_t share : {16385, 20000, 30001}) {
    const shm::Question call{GroupAction::kAllreduce, 8 * share, 8, false};
    const std::size_t block = shm::block_of_round(call, shm::Variant::kStaged, share, 512 << 10);
    EXPECT_LT(block, share);
    EXPECT_GE(2 * block, share);
    EXPECT_EQ(block % shm::kLine, 0u);
  }
}

}  // namespace
}  // namespace echelon
