// SPDX-License-Identifier: Apache-2.0
// Control of a communicator of one: needs no connection.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "lib/bootstrap/control.h"

namespace echelon {

class SoloControl final : public Control {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Key key(std::string_view) const override { return random_secret(); }
  std::string address() override { return {}; }
  std::vector<std::string> allgather(std::string_view mine, Deadline) override {
    check();
    return {std::string(mine)};
  }
  void set_patience(const Patience&) override {}
  void attend(Attendant* attendant, const std::vector<int>&) override {
    std::lock_guard lock(mutex_);
    attendant_ = attendant;
  }
  int fd() const override { return -1; }
  void check() override {
    std::lock_guard lock(mutex_);
    if (failure_) throw *failure_;
  }
  std::string waiting(std::chrono::nanoseconds) override { return {}; }
  bool in_doubt() override { return false; }
  void fail(const Error& error) noexcept override {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = error;
    if (attendant_ != nullptr) attendant_->failed();
  }
  void close(Deadline) override { check(); }

 private:
  std::mutex mutex_;
  std::optional<Error> failure_;
  Attendant* attendant_ = nullptr;
};

}  // namespace echelon
