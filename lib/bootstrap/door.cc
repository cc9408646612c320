// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/door.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/error.h"
#include "lib/bootstrap/notice.h"

namespace echelon {
namespace {

// Of accepting and hearing: the kernel's queue holds 4096, of which 64 come in at once.
constexpr int kMostRounds = 100;

}  // namespace

Door::Door(Standby& standby, Admit admit)
    : standby_(standby),
      admit_(std::move(admit)),
      key_(standby.door_key(standby.self())),
      reception_(standby.reception()) {}

void Door::serve(const pollfd* sockets) {
  reception_.serve(sockets, [this](Guest& guest) { judge(guest); });
}

void Door::catch_up() {
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<pollfd> sockets;
    watch(sockets);
    if (::poll(sockets.data(), sockets.size(), 0) <= 0) return;
    serve(sockets.data());
  }
}

void Door::judge(Guest& guest) {
  Hello hello;
  try {
    hello = decode_hello(key_, guest.challenge, guest.hello);
  } catch (const Error&) {
    return judge_stranger(guest);
  }
  const auto seat = static_cast<int>(hello.rank);
  if (seat < 0 || seat >= standby_.size() || seat == standby_.self()) return;  // no rank says that
  const bool out = standby_.gone[seat];
  if (!out && admit_(guest, hello)) return;
  const Verdict verdict{out ? kLeftOut : kNotNow, ""};
  reply(guest, encode_verdict(key_, guest.challenge, guest.hello, verdict));
  if (!out) waiting_[seat] = std::move(guest.fd);
}

void Door::judge_stranger(const Guest& guest) {
  if (const std::optional<int> from = decode_notice(standby_, guest.hello)) {
    // Who was left out itself, and does not know that, has nobody to leave out.
    if (!standby_.gone[*from]) standby_.lost_to = from;
    return;
  }
  reply(guest, encode_refusal());
  if (std::exchange(met_stranger_, true)) return;
  standby_.log(ECH_LOG_WARN,
               fmt::format("shrink: refused {}: it does not know the job's secret (said once)",
                           guest.from.text()));
}

}  // namespace echelon
