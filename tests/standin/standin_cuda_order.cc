// SPDX-License-Identifier: Apache-2.0
// The stand-in for libcuda.so.1: streams, events, and what streams wait for.
#include <atomic>

#include "tests/standin/standin_cuda.h"
#include "tests/standin/standin_cuda_api.h"
#include "tests/standin/standin_cuda_memory.h"
#include "tests/standin/standin_cuda_state.h"

namespace echelon::standin {
namespace {

// A new address: the handle of something.
template <typename Handle>
Handle new_handle() {
  static std::atomic<std::uintptr_t> last = 0x1000;
  return reinterpret_cast<Handle>(last += 16);
}

// Finds the stream of a call; an error when the call or the stream is not right.
CudaResult enter_for(std::string_view function, CudaStream handle, StreamPtr& stream) {
  const CudaResult error = enter(function);
  if (error != kCudaSuccess) return error;
  stream = find_stream(handle);
  return stream != nullptr ? kCudaSuccess : kCudaInvalidHandle;
}

// Copies what is known of an event.
CudaResult enter_for(std::string_view function, CudaEvent handle, Event& event) {
  const CudaResult error = enter(function);
  if (error != kCudaSuccess) return error;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.events.find(handle);
  if (found == s.events.end()) return kCudaInvalidHandle;
  event = found->second;
  return kCudaSuccess;
}

}  // namespace

CudaResult cuStreamCreateWithPriority(CudaStream* stream, unsigned flags, int) {
  const CudaResult error = enter("cuStreamCreateWithPriority");
  if (error != kCudaSuccess) return error;
  if (current_device() < 0) return kCudaInvalidContext;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *stream = new_handle<CudaStream>();
  s.streams[*stream] = Stream::start(current_device(), (flags & kCudaStreamNonBlocking) == 0);
  return kCudaSuccess;
}

CudaResult cuStreamDestroy_v2(CudaStream stream) {
  StreamPtr found;
  const CudaResult error = enter_for("cuStreamDestroy_v2", stream, found);
  if (error != kCudaSuccess) return error;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.streams.erase(stream) == 0) return kCudaInvalidHandle;
  found->close();
  return kCudaSuccess;
}

CudaResult cuStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned) {
  Event found;
  const CudaResult error = enter_for("cuStreamWaitEvent", event, found);
  if (error != kCudaSuccess) return error;
  if (found.mark == nullptr) return find_stream(stream) ? kCudaSuccess : kCudaInvalidHandle;
  return enqueue(stream, [mark = found.mark] { mark->wait(); });
}

CudaResult cuStreamQuery(CudaStream stream) {
  StreamPtr found;
  const CudaResult error = enter_for("cuStreamQuery", stream, found);
  if (error != kCudaSuccess) return error;
  return found->idle() ? kCudaSuccess : kCudaNotReady;
}

CudaResult cuStreamSynchronize(CudaStream stream) {
  StreamPtr found;
  const CudaResult error = enter_for("cuStreamSynchronize", stream, found);
  if (error != kCudaSuccess) return error;
  found->finish();
  return CudaResult(state().broken.load());
}

CudaResult cuStreamIsCapturing(CudaStream stream, CudaCaptureStatus* status) {
  StreamPtr found;
  const CudaResult error = enter_for("cuStreamIsCapturing", stream, found);
  if (error == kCudaSuccess) *status = found->capturing() ? kCudaCapturing : kCudaNotCapturing;
  return error;
}

CudaResult cuStreamGetCtx(CudaStream stream, CudaContext* context) {
  StreamPtr found;
  const CudaResult error = enter_for("cuStreamGetCtx", stream, found);
  if (error == kCudaSuccess) *context = context_of(found->device);
  return error;
}

CudaResult cuEventCreate(CudaEvent* event, unsigned flags) {
  const CudaResult error = enter("cuEventCreate");
  if (error != kCudaSuccess) return error;
  if (current_device() < 0) return kCudaInvalidContext;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  *event = new_handle<CudaEvent>();
  s.events[*event].timing = (flags & kCudaEventDisableTiming) == 0;
  return kCudaSuccess;
}

CudaResult cuEventDestroy_v2(CudaEvent event) {
  Event found;
  const CudaResult error = enter_for("cuEventDestroy_v2", event, found);
  if (error != kCudaSuccess) return error;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.events.erase(event) == 1 ? kCudaSuccess : kCudaInvalidHandle;
}

CudaResult cuEventRecord(CudaEvent event, CudaStream stream) {
  Event found;
  const CudaResult error = enter_for("cuEventRecord", event, found);
  if (error != kCudaSuccess) return error;
  MarkPtr mark;
  const CudaResult result = enqueue(
      stream, [] {}, &mark);
  if (result != kCudaSuccess) return result;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.events[event].mark = mark;
  return kCudaSuccess;
}

CudaResult cuEventQuery(CudaEvent event) {
  Event found;
  const CudaResult error = enter_for("cuEventQuery", event, found);
  if (error != kCudaSuccess) return error;
  return found.mark == nullptr || found.mark->reached() ? kCudaSuccess : kCudaNotReady;
}

CudaResult cuEventSynchronize(CudaEvent event) {
  Event found;
  const CudaResult error = enter_for("cuEventSynchronize", event, found);
  if (error != kCudaSuccess) return error;
  if (found.mark != nullptr) found.mark->wait();
  return CudaResult(state().broken.load());
}

CudaResult cuEventElapsedTime(float* milliseconds, CudaEvent begin, CudaEvent end) {
  Event first, second;
  CudaResult error = enter_for("cuEventElapsedTime", begin, first);
  if (error == kCudaSuccess) error = enter_for("", end, second);
  if (error != kCudaSuccess) return error;
  if (!first.timing || !second.timing || !first.mark || !second.mark) return kCudaInvalidHandle;
  if (!first.mark->reached() || !second.mark->reached()) return kCudaNotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(second.mark->when() - first.mark->when()).count();
  return kCudaSuccess;
}

}  // namespace echelon::standin

echelon::CudaResult standin_set_capturing(echelon::CudaStream stream, int on) {
  const auto found = echelon::standin::find_stream(stream);
  if (found == nullptr) return echelon::kCudaInvalidHandle;
  found->set_capturing(on != 0);
  return echelon::kCudaSuccess;
}
