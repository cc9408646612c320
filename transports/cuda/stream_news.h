// SPDX-License-Identifier: Apache-2.0
// Sleeping until a stream gets somewhere: a host function in the stream writes to a descriptor.
#pragma once

#include "lib/base/fd.h"
#include "transports/cuda/device.h"
#include "transports/waitable.h"

namespace echelon {

// Must outlive what ring_after() has put into streams: synchronize those first.
class StreamNews {
 public:
  // Throws ECH_ERR_NO_MEMORY.
  explicit StreamNews(const DeviceContext& device);

  int fd() const { return event_.get(); }

  // Makes fd() readable when what is in `stream` now is done.
  void ring_after(CudaStream stream);

  // Makes fd() readable now. Any thread.
  void ring() noexcept;

  // Until it rings again.
  void quiet() noexcept;

 private:
  const DeviceContext& device_;
  Fd event_;
};

}  // namespace echelon
