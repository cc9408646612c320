// SPDX-License-Identifier: Apache-2.0
// A survivor's connection to the standby listener of another seat. Who is dead refuses it. Who
// lives has it accepted by the kernel; what it answers is up to it, and who is stopped answers
// nothing. Everything else (no way to the host, a connection that ends) proves nothing and is tried
// again. So is a connection on which nothing comes, ever more rarely: of a process that ends while
// its kernel accepts, the caller may never hear, but the next call is refused.
//
// Thread safety: one thread at a time. No call blocks.
#pragma once

#include <poll.h>

#include <memory>
#include <string>

#include "lib/bootstrap/channel.h"
#include "lib/bootstrap/control.h"
#include "lib/bootstrap/handshake.h"
#include "lib/bootstrap/standby.h"

namespace echelon {

class StandbyCall {
 public:
  enum class State {
    kSilent,    // stopped, cut off, or slow
    kLives,     // it cannot let us in now; asked again now and then, and when it says so
    kLetIn,     // we may follow: take_channel()
    kLeftOut,   // it has gone on without us before
    kNotThere,  // dead, or its port has a new owner
  };

  // `again`: how long to believe that it lives. Throws like dial().
  StandbyCall(const Standby& standby, int seat, std::chrono::nanoseconds again);

  State state() const { return state_; }

  // What to poll for, until retry_at() at the latest.
  pollfd watched() const;
  Deadline retry_at() const { return retry_at_; }

  // Does what can be done. Throws like dial().
  State advance(Deadline now);
  std::unique_ptr<Channel> take_channel() { return std::move(channel_); }

 private:
  void begin(Deadline now);
  void pause(Deadline now);
  void read(Deadline now);
  void understand(Deadline now);
  void answer_challenge(Deadline now);
  void obey_verdict(const Verdict& verdict, Deadline now);

  const Standby& standby_;
  const int seat_;
  const Key key_;
  const std::chrono::nanoseconds again_;
  State state_ = State::kSilent;
  Fd fd_;  // empty before it begins and while it pauses
  bool connected_ = false;
  Deadline retry_at_{};
  std::chrono::nanoseconds patience_;  // with a connection on which nothing comes
  std::string input_;                  // of the message that comes now
  std::string challenge_, hello_;
  std::unique_ptr<Channel> channel_;
};

}  // namespace echelon
