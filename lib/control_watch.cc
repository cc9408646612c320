// SPDX-License-Identifier: Apache-2.0
#include "lib/control_watch.h"

#include <fmt/format.h>
#include <poll.h>

#include "lib/base/time.h"
#include "lib/fabric/nic_state.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFirstLine{1};    // no line about waiting is logged before
constexpr std::chrono::milliseconds kNews{300};  // of a failure on another rank take less
constexpr std::chrono::seconds kNicPeriod{1};    // of looking at NICs, while this rank waits

}  // namespace

std::string ControlWatch::waiting(std::chrono::nanoseconds since) {
  if (since < kFirstLine) complain_at_ = kFirstLine;
  look_for_lost_nics(since);
  std::string why = control_.waiting(since);
  if (!why.empty() && since >= complain_at_) {
    log_(ECH_LOG_WARN, fmt::format("{}, for {:.1f} s by now", why, to_seconds(since)));
    complain_at_ = 2 * since;
  }
  return why;
}

void ControlWatch::report(const Error& error) noexcept {
  if (names_no_rank(error)) return fail_as(rank_names_[control_.rank()], error, control_);
  control_.fail(error);
}

// What was sent by a NIC that has vanished is lost, and nothing says so: who waits looks. One that
// is down may come back, for as long as a rank that is silent is waited for.
void ControlWatch::look_for_lost_nics(std::chrono::nanoseconds since) {
  if (since < kNicPeriod) look_at_ = kNicPeriod;
  if (since < look_at_) return;
  look_at_ = since + kNicPeriod;
  for (const std::string& nic : nics_.names) {
    const NicState state = nic_state(nic);
    if (state == NicState::kThere) continue;
    if (state == NicState::kDown && since < nics_.patience) continue;
    const char* const what = state == NicState::kGone ? "gone" : "down";
    return control_.fail(
        {ECH_ERR_PEER, fmt::format("{} has lost its network interface {}, which is {}",
                                   rank_names_[control_.rank()], nic, what)});
  }
}

bool names_no_rank(const Error& error) {
  const ech_status code = error.code();
  return code == ECH_ERR_SYSTEM || code == ECH_ERR_NO_MEMORY || code == ECH_ERR_UNSUPPORTED ||
         code == ECH_ERR_INTERNAL;
}

void fail_as(const std::string& rank, const Error& error, Control& control) noexcept {
  try {
    control.fail({error.code(), fmt::format("{}: {}", rank, error.what())});
  } catch (const std::exception&) {
    control.fail(error);  // no memory for more
  }
}

void await_failure(Control& control) {
  const Deadline limit = Clock::now() + kNews;
  control.check();
  for (auto now = Clock::now(); control.fd() >= 0 && now < limit; now = Clock::now()) {
    pollfd news{control.fd(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - now);
    ::poll(&news, 1, static_cast<int>(left.count()));
    control.check();
  }
}

}  // namespace echelon
