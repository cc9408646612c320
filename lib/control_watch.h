// SPDX-License-Identifier: Apache-2.0
// What an engine hears over the control connection, and who is told of its failures. Every engine
// has one of its own.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/bootstrap/control.h"
#include "lib/engine/engine.h"

namespace echelon {

// By which this rank reaches other hosts, and how long one of them may be down.
struct NicsInUse {
  std::vector<std::string> names;
  std::chrono::nanoseconds patience{};
};

class ControlWatch final : public Watch {
 public:
  // All outlive this. `rank_names`: "rank 3 on hostB (pid 12)", by rank.
  ControlWatch(Control& control, const std::vector<std::string>& rank_names, const Log& log,
               const NicsInUse& nics)
      : control_(control), rank_names_(rank_names), log_(log), nics_(nics) {}

  int fd() const override { return control_.fd(); }
  void check() override { control_.check(); }
  std::string describe(int rank) const override { return rank_names_[rank]; }
  std::string waiting(std::chrono::nanoseconds since) override;
  void ask() override { control_.waiting(kLongAgo); }
  bool in_doubt() override { return control_.in_doubt(); }
  void report(const Error& error) noexcept override;

 private:
  static constexpr std::chrono::hours kLongAgo{1};  // longer than any patience

  void look_for_lost_nics(std::chrono::nanoseconds since);

  Control& control_;
  const std::vector<std::string>& rank_names_;
  const Log& log_;
  const NicsInUse& nics_;
  std::chrono::nanoseconds complain_at_{};  // of waiting, when the next line is logged
  std::chrono::nanoseconds look_at_{};      // and when the NICs are looked at
};

// Whether it is this rank's own trouble. Other failures name a rank already: the one that is gone,
// or is waited for.
bool names_no_rank(const Error& error);

// Ends the communicator on every rank with what has befallen this one, "rank 3 on hostB (pid 12)",
// unless it has failed before.
void fail_as(const std::string& rank, const Error& error, Control& control) noexcept;

// What is known of another rank's end may be less here than where it was found. Waits a moment for
// the news and throws them; returns when none come.
void await_failure(Control& control);

}  // namespace echelon
