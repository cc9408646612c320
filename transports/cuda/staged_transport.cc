// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/staged_transport.h"

#include <sys/epoll.h>

#include <cerrno>

namespace echelon {

StagedTransport::StagedTransport(std::unique_ptr<Transport> host, const CudaMemory& memory,
                                 const DeviceContext& device)
    : host_(std::move(host)),
      memory_(memory),
      device_(device),
      news_(device),
      both_(epoll_create1(EPOLL_CLOEXEC)),
      pool_(device),
      out_(make_stream(device)),
      in_(make_stream(device)) {
  if (!both_) throw system_error("cannot open an epoll descriptor", errno);
  watch(news_.fd());
  watch(host_->fd());
}

StagedTransport::~StagedTransport() {
  if (passages_.empty()) return;
  host_->abort();
  host_->progress();
  end_all();
}

void StagedTransport::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(both_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw system_error("cannot watch a transport", errno);
}

StagedTransport::Passage& StagedTransport::begin(Passage::Stage stage, int peer, Tag tag,
                                                 std::size_t bytes, Completion& completion) {
  if (spare_.empty()) spare_.push_back({});
  Passage& passage = spare_.front();
  if (passage.copied == nullptr) passage.copied = make_event(device_);
  passage.piece = pool_.take(bytes);
  passage.stage = stage;
  passage.peer = peer;
  passage.tag = tag;
  passage.bytes = bytes;
  passage.inner = Completion();
  passage.outer = &completion;
  completion = Completion{false, ECH_OK, peer};
  passages_.splice(passages_.end(), spare_, spare_.begin());
  return passage;
}

void StagedTransport::send(int peer, Tag tag, std::span<const std::byte> data,
                           Completion& completion) {
  if (data.empty() || memory_.is_pinned(data.data()))
    return host_->send(peer, tag, data, completion);
  Passage& passage = begin(Passage::Stage::kToHost, peer, tag, data.size(), completion);
  const DeviceScope scope(device_);
  const CudaDriver& cuda = device_.cuda();
  device_.check(cuda.memcpy_dtoh_async(passage.piece.memory.get(), cuda_pointer(data.data()),
                                       data.size(), out_.get()),
                "cuMemcpyDtoHAsync");
  device_.check(cuda.event_record(passage.copied.get(), out_.get()), "cuEventRecord");
}

void StagedTransport::receive(int peer, Tag tag, std::span<std::byte> data,
                              Completion& completion) {
  if (data.empty() || memory_.is_pinned(data.data()))
    return host_->receive(peer, tag, data, completion);
  Passage& passage = begin(Passage::Stage::kReceiving, peer, tag, data.size(), completion);
  passage.device_memory = data.data();
  host_->receive(peer, tag, {passage.piece.memory.get(), data.size()}, passage.inner);
}

bool StagedTransport::copied(const Passage& passage) const {
  const DeviceScope scope(device_);
  const CudaResult result = device_.cuda().event_query(passage.copied.get());
  if (result == kCudaNotReady) return false;
  device_.check(result, "a copy between a GPU and its host");
  return true;
}

void StagedTransport::start_copy_to_device(Passage& passage) {
  const DeviceScope scope(device_);
  const CudaDriver& cuda = device_.cuda();
  device_.check(cuda.memcpy_htod_async(cuda_pointer(passage.device_memory),
                                       passage.piece.memory.get(), passage.bytes, in_.get()),
                "cuMemcpyHtoDAsync");
  device_.check(cuda.event_record(passage.copied.get(), in_.get()), "cuEventRecord");
}

// To the next stage. False when it is not time yet.
bool StagedTransport::advance(Passage& passage) {
  using Stage = Passage::Stage;
  if (passage.stage == Stage::kToHost) {
    if (!copied(passage)) return false;
    passage.stage = Stage::kSending;
    host_->send(passage.peer, passage.tag, {passage.piece.memory.get(), passage.bytes},
                passage.inner);
    return true;
  }
  if (passage.stage == Stage::kReceiving) {
    if (!passage.inner.done || passage.inner.status != ECH_OK) return false;
    start_copy_to_device(passage);
    passage.stage = Stage::kToDevice;
    return true;
  }
  return false;
}

void StagedTransport::end(Passages::iterator passage, ech_status status) {
  passage->outer->status = status;
  passage->outer->done = true;
  pool_.give_back(std::move(passage->piece));
  spare_.splice(spare_.end(), passages_, passage);
}

bool StagedTransport::ended(const Passage& passage) const {
  if (passage.stage == Passage::Stage::kToHost) return false;
  return passage.stage == Passage::Stage::kToDevice ? copied(passage) : passage.inner.done;
}

bool StagedTransport::progress() {
  bool moved = host_->progress();
  if (aborted_.load(std::memory_order_acquire)) return end_all() || moved;
  for (auto next = passages_.begin(); next != passages_.end();) {
    const auto passage = next++;
    while (advance(*passage)) moved = true;
    if (!ended(*passage)) continue;
    end(passage, passage->inner.status);
    moved = true;
  }
  return moved;
}

void StagedTransport::abort() {
  aborted_.store(true, std::memory_order_release);
  host_->abort();
  news_.ring();
}

// The transport below has let go of the pinned memory before. True when there was anything.
bool StagedTransport::end_all() noexcept {
  if (passages_.empty()) return false;
  CudaContext context = nullptr;
  if (device_.cuda().ctx_push_current(device_.context()) == kCudaSuccess) {
    device_.cuda().stream_synchronize(out_.get());
    device_.cuda().stream_synchronize(in_.get());
    device_.cuda().ctx_pop_current(&context);
  }
  while (!passages_.empty()) end(passages_.begin(), ECH_ERR_ABORTED);
  return true;
}

bool StagedTransport::arm() {
  if (progress() || aborted_.load(std::memory_order_acquire)) return false;
  bool out = false, in = false;
  for (const Passage& passage : passages_) {
    out = out || passage.stage == Passage::Stage::kToHost;
    in = in || passage.stage == Passage::Stage::kToDevice;
  }
  const DeviceScope scope(device_);
  if (out) news_.ring_after(out_.get());
  if (in) news_.ring_after(in_.get());
  return host_->arm();
}

void StagedTransport::disarm() {
  host_->disarm();
  news_.quiet();
}

}  // namespace echelon
