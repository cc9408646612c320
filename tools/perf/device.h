// SPDX-License-Identifier: Apache-2.0
// A GPU as perf uses it. What CUDA and NCCL call these things is known outside of this folder.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tools/perf/settings.h"

namespace echelon::perf {

class Comm;

// Another library's allreduce, to compare with.
class Peer {
 public:
  virtual ~Peer() = default;

  // Puts one operation into the device's stream. Throws Failure.
  virtual void allreduce(const void* send, void* recv, const Case& what) = 0;
};

// Current on the thread that opened it for as long as it lives. All functions throw Failure.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string identity() const = 0;  // of the GPU, 16 bytes: in every process the same

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;

  // Done when they return.
  virtual void upload(void* there, std::span<const std::byte> here) = 0;
  virtual void download(std::span<std::byte> here, const void* there) = 0;

  virtual void* stream() const = 0;  // one of its own
  virtual void wait() = 0;           // until the stream is empty

  // NCCL over all ranks. Collective; throws on all ranks when one cannot.
  virtual std::unique_ptr<Peer> nccl(const Comm& comm) = 0;
};

// The GPU of a rank: its number on the host, modulo the number of GPUs there.
using OpenDevice = std::function<std::unique_ptr<Device>(int local_rank)>;

}  // namespace echelon::perf
