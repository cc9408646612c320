// SPDX-License-Identifier: Apache-2.0
// What an engine hears over the control connection, and who is told of its failures. Every engine
// has one of its own.
//
// Thread safety: one thread at a time.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/bootstrap/control.h"
#include "lib/engine/engine.h"

namespace echelon {

class ControlWatch final : public Watch {
 public:
  // All outlive this. `rank_names`: "rank 3 on hostB (pid 12)", by rank.
  ControlWatch(Control& control, const std::vector<std::string>& rank_names, const Log& log)
      : control_(control), rank_names_(rank_names), log_(log) {}

  int fd() const override { return control_.fd(); }
  void check() override { control_.check(); }
  std::string describe(int rank) const override { return rank_names_[rank]; }
  std::string waiting(std::chrono::nanoseconds since) override {
    if (since < kFirstLine) complain_at_ = kFirstLine;
    std::string why = control_.waiting(since);
    if (!why.empty() && since >= complain_at_) {
      log_(ECH_LOG_WARN, fmt::format("{}, for {:.1f} s by now", why, to_seconds(since)));
      complain_at_ = 2 * since;
    }
    return why;
  }
  void ask() override { control_.waiting(kLongAgo); }
  bool in_doubt() override { return control_.in_doubt(); }
  void report(const Error& error) noexcept override { control_.fail(error); }

 private:
  static constexpr std::chrono::hours kLongAgo{1};      // longer than any patience
  static constexpr std::chrono::seconds kFirstLine{1};  // no line about waiting is logged before

  Control& control_;
  const std::vector<std::string>& rank_names_;
  const Log& log_;
  std::chrono::nanoseconds complain_at_{};  // of waiting, when the next line is logged
};

}  // namespace echelon
