// SPDX-License-Identifier: Apache-2.0
// Messages from and to the memory of a GPU, over a transport that knows only host memory: through
// pinned memory, message by message. Copies to the host, messages, and copies to the GPU overlap;
// cutting a buffer into pieces is left to who sends (the engine's segments).
#pragma once

#include <atomic>
#include <list>
#include <memory>

#include "lib/base/fd.h"
#include "transports/cuda/cuda_memory.h"
#include "transports/cuda/pinned_pool.h"
#include "transports/transport.h"

namespace echelon {

class StagedTransport final : public Transport {
 public:
  // `memory` and `device` outlive this. Messages in what `memory` has pinned itself are not staged.
  // Throws ECH_ERR_NO_MEMORY, ECH_ERR_SYSTEM.
  StagedTransport(std::unique_ptr<Transport> host, const CudaMemory& memory,
                  const DeviceContext& device);
  ~StagedTransport() override;

  void send(int peer, Tag tag, std::span<const std::byte> data, Completion& completion) override;
  void receive(int peer, Tag tag, std::span<std::byte> data, Completion& completion) override;
  bool progress() override;
  void abort() override;
  bool all_left() override { return host_->all_left(); }
  Counters counters() const override { return host_->counters(); }
  std::string reason(int peer) const override { return host_->reason(peer); }

  // Of the copies and of the transport below.
  int fd() const override { return both_.get(); }
  bool arm() override;
  void disarm() override;
  void sleep(std::chrono::nanoseconds limit) override { sleep_on(fd(), limit); }

 private:
  // One message on its way. The transport below writes to `inner`, so it stays in its place.
  struct Passage {
    enum class Stage { kToHost, kSending, kReceiving, kToDevice };
    Stage stage;
    int peer;
    Tag tag;
    std::byte* device_memory;  // of a receive
    std::size_t bytes;
    PinnedPool::Piece piece;
    OwnedEvent copied;
    Completion inner;
    Completion* outer;
  };
  using Passages = std::list<Passage>;

  Passage& begin(Passage::Stage stage, int peer, Tag tag, std::size_t bytes,
                 Completion& completion);
  bool advance(Passage& passage);
  bool copied(const Passage& passage) const;
  bool ended(const Passage& passage) const;
  void start_copy_to_device(Passage& passage);
  void end(Passages::iterator passage, ech_status status);
  bool end_all() noexcept;
  void watch(int fd);

  const std::unique_ptr<Transport> host_;
  const CudaMemory& memory_;
  const DeviceContext& device_;
  StreamNews news_;
  Fd both_;  // epoll, on the news of the copies and of `host_`
  PinnedPool pool_;
  OwnedStream out_, in_;
  Passages passages_;  // in order of their start
  Passages spare_;
  std::atomic<bool> aborted_ = false;
};

}  // namespace echelon
