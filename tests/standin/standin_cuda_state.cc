// SPDX-License-Identifier: Apache-2.0
#include "tests/standin/standin_cuda_state.h"

#include <unistd.h>

namespace echelon::standin {

thread_local bool in_host_function = false;

State::State()
    : version(static_cast<int>(number_from("STANDIN_CUDA_VERSION", 12040))),
      bandwidth(number_from("STANDIN_CUDA_BANDWIDTH", 0)),
      latency(number_from("STANDIN_CUDA_LATENCY", 0)),
      faults("STANDIN_CUDA_FAIL"),
      devices(static_cast<std::size_t>(number_from("STANDIN_CUDA_DEVICES", 1))) {}

// Never destroyed: threads of streams outlive main().
State& state() {
  static auto& one = *new State;
  return one;
}

CudaResult enter(std::string_view function) {
  State& s = state();
  if (in_host_function) return kCudaNotPermitted;
  // A child of a process that uses CUDA cannot.
  if (s.initialized_by != getpid()) return kCudaNotInitialized;
  if (const int broken = s.broken; broken != kCudaSuccess) return CudaResult(broken);
  return CudaResult(s.faults.next(function));
}

std::vector<int>& context_stack() {
  thread_local std::vector<int> stack;
  return stack;
}

int current_device() { return context_stack().empty() ? -1 : context_stack().back(); }

CudaContext context_of(int device) {
  return device < 0 ? nullptr : reinterpret_cast<CudaContext>(&state().devices[device]);
}

int device_of(CudaContext context) {
  for (int d = 0; d < static_cast<int>(state().devices.size()); ++d)
    if (context_of(d) == context) return d;
  return -1;
}

StreamPtr find_stream(CudaStream stream) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const bool is_null = stream == nullptr || reinterpret_cast<std::uintptr_t>(stream) == 1;
  if (is_null) return current_device() < 0 ? nullptr : s.devices[current_device()].null_stream;
  const auto found = s.streams.find(stream);
  return found != s.streams.end() ? found->second : nullptr;
}

namespace {

// What has to be done before more is enqueued on `stream`. The state is locked.
std::vector<MarkPtr> before(State& s, const Stream& stream) {
  std::vector<MarkPtr> marks;
  const auto add = [&](const Stream& other) {
    if (const MarkPtr mark = other.last(); mark != nullptr && !mark->reached())
      marks.push_back(mark);
  };
  const Stream& null_stream = *s.devices[stream.device].null_stream;
  if (&stream != &null_stream) {
    if (stream.blocking) add(null_stream);
    return marks;
  }
  for (const auto& [handle, other] : s.streams)
    if (other->blocking && other->device == stream.device) add(*other);
  return marks;
}

}  // namespace

CudaResult enqueue(CudaStream stream, std::function<void()> work, MarkPtr* mark) {
  return enqueue_always(
      stream,
      [work = std::move(work)](bool broken) {
        if (!broken) work();
      },
      mark);
}

CudaResult enqueue_always(CudaStream handle, std::function<void(bool)> work, MarkPtr* mark) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return kCudaInvalidHandle;
  if (stream->capturing()) return kCudaCaptureUnsupported;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const MarkPtr made = stream->enqueue(
      [&s, work = std::move(work)] { work(s.broken != kCudaSuccess); }, before(s, *stream));
  if (mark != nullptr) *mark = made;
  return kCudaSuccess;
}

void finish_device(int device) {
  std::vector<StreamPtr> all;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    for (const auto& [handle, stream] : s.streams)
      if (stream->device == device) all.push_back(stream);
    if (s.devices[device].null_stream) all.push_back(s.devices[device].null_stream);
  }
  for (const StreamPtr& stream : all) stream->finish();
}

}  // namespace echelon::standin
