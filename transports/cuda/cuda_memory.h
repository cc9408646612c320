// SPDX-License-Identifier: Apache-2.0
// The memory of a GPU: copies and reductions on a stream per lane.
#pragma once

#include <vector>

#include "transports/cuda/device.h"
#include "transports/cuda/kernels.h"
#include "transports/cuda/stream_news.h"
#include "transports/memory.h"

namespace echelon {

class CudaMemory final : public Memory, private Waitable {
 public:
  // Where messages to be reduced arrive: in pinned host memory, which kernels read from the GPU,
  // or, with a transport that reaches it, in the GPU's own.
  enum class Arrival { kPinned, kDevice };

  // `device` outlives this. Throws as CudaKernels does, ECH_ERR_NO_MEMORY, ECH_ERR_SYSTEM.
  CudaMemory(const DeviceContext& device, int lanes, Arrival arrival);
  ~CudaMemory() override { settle(); }

  std::byte* reserve(int lane, Use use, std::size_t bytes) override;
  void copy(int lane, std::byte* to, const std::byte* from, std::size_t bytes) override;
  void reduce(int lane, const Reduction& work) override;
  void divide(int lane, const Division& work) override;
  void scale(int lane, const Scaling& work) override;
  bool done(int lane) override;
  void settle() noexcept override;
  Waitable* news() override { return this; }

  // Whether `memory` is what reserve() has given for messages that arrive in host memory.
  bool is_pinned(const std::byte* memory) const;

 private:
  struct Lane {
    OwnedStream stream;
    OwnedEvent event;  // after everything that was given to the lane, once `marked`
    bool busy = false, marked = false;
    DeviceBytes work, incoming;
    PinnedBytes pinned;
    std::size_t work_bytes = 0, incoming_bytes = 0;
  };

  // Waitable
  int fd() const override { return news_.fd(); }
  bool arm() override;
  void disarm() override { news_.quiet(); }
  void sleep(std::chrono::nanoseconds limit) override { sleep_on(fd(), limit); }

  Lane& give(int lane);

  const DeviceContext& device_;
  const Arrival arrival_;
  StreamNews news_;
  CudaKernels kernels_;
  std::vector<Lane> lanes_;
  std::vector<DeviceBytes> outgrown_;
  std::vector<PinnedBytes> outgrown_pinned_;
};

}  // namespace echelon
