// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/stream_news.h"

#include <sys/eventfd.h>

#include <cerrno>

namespace echelon {

StreamNews::StreamNews(const DeviceContext& device)
    : device_(device), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) throw system_error("cannot open an event descriptor", errno);
}

void StreamNews::ring_after(CudaStream stream) {
  const auto ring = [](void* self) { static_cast<StreamNews*>(self)->ring(); };
  device_.check(device_.cuda().launch_host_func(stream, ring, this), "cuLaunchHostFunc");
}

void StreamNews::ring() noexcept { eventfd_write(event_.get(), 1); }

void StreamNews::quiet() noexcept {
  eventfd_t count = 0;
  eventfd_read(event_.get(), &count);
}

}  // namespace echelon
