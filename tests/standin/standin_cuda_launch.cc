// SPDX-License-Identifier: Apache-2.0
// The stand-in for libcuda.so.1: kernels and functions of the host.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/standin/standin_cuda.h"
#include "tests/standin/standin_cuda_api.h"
#include "tests/standin/standin_cuda_state.h"

namespace echelon::standin {
namespace {

// By name. Not guarded by the mutex of the state: a library registers its kernels while the loader
// holds a lock, which others need, with the state's, to make their first thread_local.
struct Registry {
  std::mutex mutex;
  std::map<std::string, const Kernel*> kernels;
};
Registry& registry() {
  static auto& all = *new Registry;
  return all;
}

// Those of the library that the environment names register themselves when it is loaded.
void load_kernels() {
  const char* const library = std::getenv("STANDIN_CUDA_KERNELS");
  if (library == nullptr || dlopen(library, RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  std::fprintf(stderr, "stand-in: STANDIN_CUDA_KERNELS: %s\n", dlerror());
  std::abort();
}

// A launch with its own copy of the arguments.
struct Call {
  const Kernel* kernel = nullptr;
  Launch launch{};
  std::vector<std::vector<char>> values;

  void run() {
    std::vector<void*> pointers;
    for (auto& value : values) pointers.push_back(value.data());
    launch.parameters = pointers.data();
    kernel->run(launch);
    const double latency = state().latency;
    if (latency > 0) std::this_thread::sleep_for(std::chrono::duration<double>(latency));
  }
};

}  // namespace

CudaResult cuLaunchHostFunc(CudaStream stream, CudaHostFunction function, void* data) {
  const CudaResult error = enter("cuLaunchHostFunc");
  if (error != kCudaSuccess) return error;
  if (function == nullptr) return kCudaInvalidValue;
  return enqueue(stream, [=] {
    in_host_function = true;
    function(data);
    in_host_function = false;
  });
}

CudaResult cuModuleLoadData(CudaModule* module, const void* image) {
  const CudaResult error = enter("cuModuleLoadData");
  if (error != kCudaSuccess) return error;
  if (image == nullptr) return kCudaInvalidValue;
  if (current_device() < 0) return kCudaInvalidContext;
  load_kernels();
  State& s = state();
  const std::lock_guard lock(s.mutex);
  static std::uintptr_t last = 0;
  *module = reinterpret_cast<CudaModule>(last += 16);
  s.modules.insert(*module);
  return kCudaSuccess;
}

CudaResult cuModuleUnload(CudaModule module) {
  const CudaResult error = enter("cuModuleUnload");
  if (error != kCudaSuccess) return error;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.modules.erase(module) == 1 ? kCudaSuccess : kCudaInvalidHandle;
}

CudaResult cuModuleGetFunction(CudaFunction* function, CudaModule module, const char* name) {
  const CudaResult error = enter("cuModuleGetFunction");
  if (error != kCudaSuccess) return error;
  State& s = state();
  const std::scoped_lock lock(s.mutex, registry().mutex);
  if (s.modules.count(module) == 0) return kCudaInvalidHandle;
  const auto found = registry().kernels.find(name);
  if (found == registry().kernels.end()) return kCudaNotFound;
  *function = reinterpret_cast<CudaFunction>(const_cast<Kernel*>(found->second));
  return kCudaSuccess;
}

CudaResult cuLaunchKernel(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                          CudaStream stream, void** parameters, void** extra) {
  const CudaResult error = enter("cuLaunchKernel");
  if (error != kCudaSuccess) return error;
  const std::uint64_t threads = std::uint64_t{block_x} * block_y * block_z;
  const std::uint64_t blocks = std::uint64_t{grid_x} * grid_y * grid_z;
  if (function == nullptr || extra != nullptr || threads == 0 || threads > 1024 || blocks == 0)
    return kCudaInvalidValue;
  Call call;
  call.kernel = reinterpret_cast<const Kernel*>(function);
  call.launch = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, nullptr};
  for (std::size_t i = 0; i < call.kernel->parameters; ++i) {
    const char* value = static_cast<const char*>(parameters[i]);
    call.values.emplace_back(value, value + call.kernel->parameter_bytes[i]);
  }
  return enqueue(stream, [call]() mutable { call.run(); });
}

}  // namespace echelon::standin

void standin_register_kernel(const echelon::standin::Kernel* kernel) {
  echelon::standin::Registry& all = echelon::standin::registry();
  const std::lock_guard lock(all.mutex);
  all.kernels[kernel->name] = kernel;
}

echelon::CudaResult standin_enqueue(echelon::CudaStream stream,
                                    void (*work)(void* data, bool broken), void* data) {
  return echelon::standin::enqueue_always(stream, [=](bool broken) { work(data, broken); });
}

void standin_break(echelon::CudaResult result) { echelon::standin::state().broken = result; }
