// SPDX-License-Identifier: Apache-2.0
// Every variant forced on every call, with slots so small that calls take many rounds.
#include <atomic>
#include <memory>

#include "tests/conformance/group_suite.h"
#include "tests/support/ranks.h"
#include "transports/shm/shared_alloc.h"
#include "transports/shm/shm_group.h"

namespace echelon::test {
namespace {

// A hundred rounds, or five.
constexpr std::size_t kLargest = kSlowness > 1 ? 20'000 : 400'000;

Memory shared_memory(std::size_t bytes) {
  return Memory(static_cast<std::byte*>(shared_alloc(bytes)), shared_free);
}

GroupCase shm_case(const char* name, bool processes, const ShmOptions& options) {
  return {name, processes, [=] { return make_shm_group(options); }, kLargest};
}

// Of which every other allocation is shared.
Memory memory_of_all_kinds(std::size_t bytes) {
  static std::atomic<int> made = 0;
  return made++ % 2 != 0 ? shared_memory(bytes) : Memory(new std::byte[bytes]);
}

GroupCase shared_case(const char* name, const ShmOptions& options) {
  GroupCase made = shm_case(name, true, options);
  made.allocate = shared_memory;
  return made;
}

constexpr std::size_t kNever = SIZE_MAX, kSlot = 64 << 10, kPage = 4096;

// The kernel copies what is gathered.
ShmOptions by_kernel(ShmOptions options) {
  options.thresholds.address = true;
  options.thresholds.address_from = 1;
  return options;
}

// With `read` the kernel copies all from that size on.
ShmOptions forced(std::size_t one_shot, std::size_t read, std::size_t slot_bytes) {
  ShmOptions options;
  options.shape.slot_bytes = slot_bytes;
  options.thresholds.one_shot = options.thresholds.one_shot_pair = one_shot;
  options.thresholds.read = read;
  options.thresholds.direct = 1;
  options.thresholds.caches = 4 << 16;  // for two members
  for (int c = 0; c < shm::kTrialClasses; ++c)
    options.known.results |= shm::word_of(shm::Finding::kOther, c);
  return read == kNever ? options : by_kernel(options);
}

ShmOptions small_rounds(ShmOptions options) {
  options.thresholds.read_block = 5000;
  return options;
}

ShmOptions past(ShmOptions options) {
  options.thresholds.past = true;
  options.thresholds.past_from = 1;
  return options;
}

// All results bypass the cache, or as trials find.
ShmOptions tries_results(ShmOptions options) {
  options.thresholds.caches = 1;
  options.known = {};
  return options;
}

// The second option for every other member.
GroupCase mixed_case(const char* name, const ShmOptions& even, const ShmOptions& odd) {
  const auto made = std::make_shared<std::atomic<int>>(0);
  return {name, false, [=] { return make_shm_group((*made)++ % 2 != 0 ? odd : even); }, kLargest};
}

GroupCase in_memory_of_all_kinds(GroupCase made) {
  made.allocate = memory_of_all_kinds;
  return made;
}

const ShmOptions kTwoPages = forced(0, kNever, 2 * kPage), kTwoSlots = forced(0, kNever, 2 * kSlot);

INSTANTIATE_TEST_SUITE_P(
    Shm, GroupSuite,
    testing::Values(shm_case("OneShot", false, forced(kNever, kNever, kPage)),
                    shm_case("Staged", true, tries_results(forced(0, kNever, kPage))),
                    shm_case("PastOneShot", false, past(forced(kNever, kNever, kSlot))),
                    shm_case("PastStaged", true, past(forced(0, kNever, 8 * kSlot))),
                    shm_case("PastInRounds", false, past(forced(0, kNever, kPage))),
                    shm_case("PastRead", false, past(forced(0, 1, kSlot))),
                    mixed_case("PastForSome", kTwoSlots, past(kTwoSlots)),
                    shm_case("GathersByKernel", true, by_kernel(kTwoPages)),
                    mixed_case("GathersByKernelFromSome", kTwoPages, by_kernel(kTwoPages)),
                    in_memory_of_all_kinds(mixed_case("GathersFromAllKinds", kTwoPages,
                                                      by_kernel(kTwoPages))),
                    shm_case("Read", true, forced(0, 1, kSlot)),
                    shm_case("ReadInRounds", false, small_rounds(forced(0, 1, kPage))),
                    shared_case("DirectOneShot", forced(kNever, kNever, kSlot)),
                    shared_case("DirectStaged", forced(0, kNever, kPage)),
                    shared_case("DirectPast", past(forced(0, kNever, 8 * kSlot))),
                    shared_case("DirectRead", small_rounds(forced(0, 1, kSlot)))),
    case_name);

}  // namespace
}  // namespace echelon::test
