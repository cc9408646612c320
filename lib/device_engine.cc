// SPDX-License-Identifier: Apache-2.0
#include "lib/device_engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/base/thread.h"
#include "lib/engine/sleep.h"

namespace echelon {
namespace {

constexpr std::size_t kBarrierBytes = 64;
constexpr std::chrono::hours kIdle{1};               // the bell ends it
constexpr std::chrono::milliseconds kAlmostIdle{1};  // a fence is under way, but nobody's call

}  // namespace

EngineParts DeviceEngine::with(EngineParts parts, Watch& watch, Waitable& also) {
  parts.watch = &watch;
  parts.also = &also;
  return parts;
}

DeviceEngine::DeviceEngine(DeviceParts parts, Watch& watch)
    : device_(std::move(parts.device)),
      barrier_bytes_(allocate_device(*device_, kBarrierBytes)),
      ready_stream_(make_stream(*device_)),
      has_messages_(parts.engine.transport != nullptr),
      news_(*this),
      engine_(with(std::move(parts.engine), watch, news_)) {}

DeviceEngine::~DeviceEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    called_ = true;
  }
  news_.bell().ring();
  if (thread_.joinable()) thread_.join();
  // What rings the bell when a stream has come to its call must not come after the bell.
  CudaContext context = nullptr;
  if (device_->cuda().ctx_push_current(device_->context()) != kCudaSuccess) return;
  device_->cuda().stream_synchronize(ready_stream_.get());
  device_->cuda().ctx_pop_current(&context);
}

// ---- for callers --------------------------------------------------------------------------------

DeviceEngine::Call DeviceEngine::submit(Call call) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw *failure_;
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
    calls_.push_back(call);
    if (!call->fence_) ++pending_;
    called_ = true;
  }
  news_.bell().ring();
  return call;
}

DeviceEngine::Call DeviceEngine::start(const Task& task, std::uint64_t sequence) {
  auto call = std::make_shared<DeviceCall>();
  call->task_ = task;
  call->sequence_ = sequence;
  return submit(std::move(call));
}

void DeviceEngine::fence(const Task& task, std::uint64_t sequence) {
  auto call = std::make_shared<DeviceCall>();
  call->task_ = task;
  call->sequence_ = sequence;
  call->fence_ = true;
  submit(std::move(call));
}

void DeviceEngine::check_stream(CudaStream stream) const {
  const DeviceScope scope(*device_);
  CudaCaptureStatus capturing = kCudaNotCapturing;
  device_->check(device_->cuda().stream_is_capturing(stream, &capturing), "cuStreamIsCapturing");
  if (capturing != kCudaNotCapturing)
    throw Error(ECH_ERR_UNSUPPORTED,
                "the stream is being captured: a collective cannot be part of a CUDA graph");
  CudaContext context = nullptr;
  device_->check(device_->cuda().stream_get_ctx(stream, &context), "cuStreamGetCtx");
  if (context != device_->context())
    throw invalid("the stream does not belong to the communicator's CUDA device");
}

DeviceEngine::Call DeviceEngine::start_in(CudaStream stream, const Task& task,
                                          std::uint64_t sequence) {
  check();
  check_stream(stream);
  auto call = std::make_shared<DeviceCall>();
  call->task_ = task;
  call->sequence_ = sequence;
  call->ready_ = make_event(*device_);
  {
    const DeviceScope scope(*device_);
    device_->check(device_->cuda().event_record(call->ready_.get(), stream), "cuEventRecord");
  }
  return submit(std::move(call));
}

bool DeviceEngine::done(const DeviceCall& call) const {
  const std::lock_guard lock(mutex_);
  return call.done_;
}

void DeviceEngine::wait(const DeviceCall& call) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return call.done_; });
  if (call.status_ != ECH_OK) throw Error(call.status_, failure_->what());
}

void DeviceEngine::wait_for(const DeviceCall& call, std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return call.done_; });
}

void DeviceEngine::drain(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto idle = [this] { return pending_ == 0; };
  if (!changed_.wait_until(lock, deadline, idle)) {
    order_ = Error(ECH_ERR_TIMEOUT, "what was pending on CUDA memory did not end in time");
    called_ = true;
    news_.bell().ring();
    changed_.wait(lock, idle);
  }
  if (failure_) throw *failure_;
}

void DeviceEngine::end_all() {
  interrupt();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pending_ == 0; });
}

void DeviceEngine::interrupt() noexcept {
  engine_.interrupt();
  called_ = true;
  news_.bell().ring();
}

void DeviceEngine::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
}

DeviceEngine::Counters DeviceEngine::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

// ---- the thread ---------------------------------------------------------------------------------

void DeviceEngine::serve() noexcept {
  block_signals();
  bool go_on = true;
  while (go_on) {
    try {
      go_on = take_calls();
      start_ready();
      end_done();
      if (go_on) sleep();
    } catch (const Error& e) {
      engine_.give_up(e);
    } catch (const std::exception& e) {
      engine_.give_up({ECH_ERR_NO_MEMORY, e.what()});
    }
    end_done();
  }
  engine_.interrupt();
  engine_.progress();
  take_calls();
  end_done();
}

// False when it is time to stop.
bool DeviceEngine::take_calls() {
  std::unique_lock lock(mutex_);
  called_ = false;
  while (!calls_.empty()) {
    waiting_.push_back(calls_.front());
    calls_.pop_front();
  }
  const std::optional<Error> order = std::exchange(order_, std::nullopt);
  const bool go_on = !stopping_;
  lock.unlock();
  if (order) engine_.give_up(*order);
  return go_on;
}

bool DeviceEngine::is_ready(DeviceCall& call) {
  if (call.ready_ == nullptr) return true;
  const DeviceScope scope(*device_);
  const CudaResult result = device_->cuda().event_query(call.ready_.get());
  if (result == kCudaNotReady) return false;
  device_->check(result, "the stream of a collective");
  call.ready_.reset();
  return true;
}

void DeviceEngine::start_ready() {
  while (!waiting_.empty() && engine_.failed() == ECH_OK && is_ready(*waiting_.front())) {
    const Call& next = waiting_.front();
    if (next->fence_) {
      engine_.fence(next->task_, next->sequence_);
    } else {
      running_.reserve(running_.size() + 1);
      next->operation_ = engine_.start(next->task_, next->sequence_);
      running_.push_back(next);
    }
    waiting_.pop_front();
  }
}

// After a failure, that is all.
void DeviceEngine::end_done() {
  publish();
  std::erase_if(running_, [this](const Call& call) {
    if (!call->operation_->done()) return false;
    const ech_status status = call->operation_->status();
    engine_.release(call->operation_);
    end(call, status);
    return true;
  });
  if (engine_.failed() == ECH_OK) return;
  for (const Call& call : waiting_) end(call, engine_.failed());
  waiting_.clear();
}

void DeviceEngine::end(const Call& call, ech_status status) {
  call->ready_.reset();
  {
    const std::lock_guard lock(mutex_);
    call->status_ = status;
    call->done_ = true;
    if (!call->fence_) --pending_;
  }
  changed_.notify_all();
}

// What others may know of the engine.
void DeviceEngine::publish() {
  ended_ = engine_.counters().operations;
  const std::lock_guard lock(mutex_);
  if (engine_.failed() != ECH_OK && !told_) failure_ = {engine_.failed(), engine_.failure()};
  told_ = failure_.has_value();
  counters_.engine = engine_.counters();
  if (engine_.transport() != nullptr) counters_.network = engine_.transport()->counters();
  if (engine_.group() != nullptr) counters_.shared_bytes = engine_.group()->bytes();
}

bool DeviceEngine::has_news() {
  return called_ || engine_.counters().operations != ended_ ||
         (!waiting_.empty() && is_ready(*waiting_.front()));
}

bool DeviceEngine::News::arm() {
  if (owner_.has_news()) return false;
  if (owner_.waiting_.empty()) return true;
  DeviceCall& next = *owner_.waiting_.front();
  const DeviceScope scope(*owner_.device_);
  const CudaStream stream = owner_.ready_stream_.get();
  if (!next.followed_)
    owner_.device_->check(owner_.device_->cuda().stream_wait_event(stream, next.ready_.get(), 0),
                          "cuStreamWaitEvent");
  next.followed_ = true;
  bell_.ring_after(stream);
  return true;
}

// Until there is something to do here. Moves the engine meanwhile.
void DeviceEngine::sleep() {
  if (Operation* const operation = most_urgent()) {
    engine_.wait(*operation, [this] { return has_news(); });
    return;
  }
  const bool moved = engine_.push();  // an interrupt, a fence, or what has not left
  if (moved || (engine_.failed() != ECH_OK && !told_)) return;
  const bool idle = !engine_.busy() && engine_.all_left();
  sleep_until_news({&news_}, -1, idle ? kIdle : Clock::duration(kAlmostIdle));
}

Operation* DeviceEngine::most_urgent() const {
  const auto first = std::ranges::min_element(
      running_, {}, [](const Call& call) { return call->operation_->deadline(); });
  return first == running_.end() ? nullptr : (*first)->operation_;
}

}  // namespace echelon
