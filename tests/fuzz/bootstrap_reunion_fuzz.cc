// SPDX-License-Identifier: Apache-2.0
// What survivors read when they look for each other: notices, before anything is proved, and the
// list of those who go on.
#include <cstdint>
#include <cstdlib>

#include "lib/base/error.h"
#include "lib/bootstrap/notice.h"
#include "lib/bootstrap/reunion.h"

namespace {

using namespace echelon;

constexpr int kSize = 16;

const Standby& standby() {
  static const Standby instance(0, {}, std::vector<Address>(kSize), random_secret());
  return instance;
}

void check_members(const std::vector<int>& seats) {
  if (seats.size() < 2) std::abort();
  for (std::size_t i = 0; i < seats.size(); ++i)
    if (seats[i] < (i == 0 ? 0 : seats[i - 1] + 1) || seats[i] >= kSize) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (decode_notice(standby(), input)) std::abort();  // a proof was guessed
  try {
    const std::vector<int> seats = decode_members(input, kSize);
    check_members(seats);
    if (encode_members(seats) != input) std::abort();
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
