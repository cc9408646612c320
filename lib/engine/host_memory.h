// SPDX-License-Identifier: Apache-2.0
// Memory of this process, where the CPU computes: everything is done when the call returns.
#pragma once

#include <memory>
#include <vector>

#include "transports/memory.h"

namespace echelon {

class HostMemory final : public Memory {
 public:
  explicit HostMemory(int lanes) : scratch_(2 * static_cast<std::size_t>(lanes)) {}

  std::byte* reserve(int lane, Use use, std::size_t bytes) override;
  void copy(int lane, std::byte* to, const std::byte* from, std::size_t bytes) override;
  void reduce(int lane, const Reduction& work) override;
  void divide(int lane, const Division& work) override;
  void scale(int lane, const Scaling& work) override;
  bool done(int) override { return true; }
  void settle() noexcept override {}
  Waitable* news() override { return nullptr; }

 private:
  struct Scratch {
    std::unique_ptr<std::byte[]> memory;
    std::size_t capacity = 0;
  };
  std::vector<Scratch> scratch_;  // by lane and use
};

}  // namespace echelon
