// SPDX-License-Identifier: Apache-2.0
// Streams that wait for what the host will say: for each wait, a word of pinned memory that the
// host sets and the GPU looks at.
//
// Thread safety: all functions from any thread. hold() may wait for the streams' own sake; raise()
// never does.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "transports/cuda/device.h"

namespace echelon {

class StreamFlags {
 public:
  struct Flag {
    std::uint32_t* word = nullptr;
    std::uint32_t value = 0;
  };

  // `device` outlives this. Every flag must have been raised before the end, and the streams must
  // have seen it: the words go with this object. Throws ECH_ERR_NO_MEMORY.
  explicit StreamFlags(const DeviceContext& device) : device_(device) {}

  // What `stream` is given after this waits until the flag is raised. Throws ECH_ERR_SYSTEM.
  Flag hold(CudaStream stream);
  void raise(const Flag& flag) noexcept;

 private:
  std::uint32_t* take_word();
  void give_back(std::uint32_t* word) noexcept;
  void add_words();

  const DeviceContext& device_;
  std::mutex mutex_;  // guards the rest; not held while CUDA is called for a stream
  std::vector<PinnedBytes> pages_;
  std::vector<std::uint32_t*> free_;  // may still be looked at, by streams that are held no more
};

// Those of a device for the whole process, which never end: a stream may look at a word long after
// everything else that had to do with it is gone. Throws as DeviceContext does.
StreamFlags& stream_flags(const CudaDriver& cuda, CudaDevice device);

}  // namespace echelon
