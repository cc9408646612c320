// SPDX-License-Identifier: Apache-2.0
// The collectives of a communicator on the memory of its GPU.
#include "lib/communicator.h"

namespace echelon {
namespace {

// Between looks at host memory, while a GPU is waited for.
constexpr std::chrono::microseconds kBetweenLooks{100};

}  // namespace

DeviceEngine& Communicator::gpu() {
  if (gpu_) return *gpu_;
  throw Error(ECH_ERR_UNSUPPORTED,
              "there are no collectives on CUDA memory in this communicator: " + gpu_absence_);
}

// A number is taken when the call has been started, not before: on all ranks alike.
DeviceEngine::Call Communicator::start_on_gpu(const Invocation& in) {
  DeviceEngine& engine = gpu();
  check();
  if (options_.check) agree(signature_of(in));
  if (in.count == 0 && in.collective != ECH_BARRIER) {
    engine_.note(signature_of(in));
    return nullptr;
  }
  fence_if_far_ahead(in);
  Task task = task_of(in.count > 0 ? in : barrier(in), signature_of(in));
  task.name = number_of_name(in);
  const std::uint64_t sequence = engine_.next_sequence();
  DeviceEngine::Call call =
      in.in_stream ? engine.start_in(static_cast<CudaStream>(in.stream), task, sequence)
                   : engine.start(task, sequence);
  engine_.take_sequence();
  count_ahead(in, ahead_on_gpu_);
  return call;
}

void Communicator::run_on_gpu(const Invocation& in) {
  const DeviceEngine::Call call = start_on_gpu(in);
  if (call) wait_on_gpu(*call);
}

bool Communicator::test_on_gpu(const DeviceCall& call) {
  engine_.push();
  return gpu_->done(call);
}

// What is under way on host memory goes on meanwhile: another rank may wait for it before it comes
// to this call.
void Communicator::wait_on_gpu(const DeviceCall& call) {
  while ((engine_.busy() || !engine_.all_left()) && !gpu_->done(call))
    if (!engine_.push()) gpu_->wait_for(call, kBetweenLooks);
  gpu_->wait(call);
}

}  // namespace echelon
