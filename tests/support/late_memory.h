// SPDX-License-Identifier: Apache-2.0
// Host memory whose work is done later, as a GPU's is: who does not wait for it sees old bytes.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "lib/engine/host_memory.h"

namespace echelon::test {

// Does one piece of work of a lane at every third question whether the lane is done.
class LateMemory final : public Memory, private Waitable {
 public:
  explicit LateMemory(int lanes) : host_(lanes), lanes_(lanes) {}

  std::byte* reserve(int lane, Use use, std::size_t bytes) override;
  void copy(int lane, std::byte* to, const std::byte* from, std::size_t bytes) override;
  void reduce(int lane, const Reduction& work) override;
  void divide(int lane, const Division& work) override;
  void scale(int lane, const Scaling& work) override;
  bool done(int lane) override;
  void settle() noexcept override;
  Waitable* news() override { return this; }

 private:
  struct Lane {
    std::deque<std::function<void()>> work;
    int questions = 0;
  };

  int fd() const override { return -1; }
  bool arm() override { return false; }  // there is always news
  void disarm() override {}
  void sleep(std::chrono::nanoseconds) override {}
  void add(int lane, std::function<void()> work);

  HostMemory host_;
  std::vector<Lane> lanes_;
};

}  // namespace echelon::test
