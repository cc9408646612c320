// SPDX-License-Identifier: Apache-2.0
// Control of a communicator of one: needs no connection.
#pragma once

#include <atomic>

#include "lib/bootstrap/control.h"

namespace echelon {

class SoloControl final : public Control {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> allgather(std::string_view mine, Deadline) override {
    check();
    return {std::string(mine)};
  }
  int fd() const override { return -1; }
  void check() override {
    if (aborted_) throw Error(ECH_ERR_ABORTED, "rank 0 aborted the communicator");
  }
  void abort() noexcept override { aborted_ = true; }
  void close(Deadline) override { check(); }

 private:
  std::atomic<bool> aborted_ = false;
};

}  // namespace echelon
