// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/driver.h"

#include <fmt/format.h>

#include <optional>

namespace echelon {
namespace {

// The first driver that knows sm_80 code.
constexpr int kOldest = 11000;

// Functions whose newer form is `symbol` and the older one, of the same type, `older`.
template <typename F>
void need_either(const DynamicLibrary& library, const char* symbol, const char* older,
                 F*& function) {
  library.find(symbol, function);
  if (function == nullptr) library.need(older, function);
}

void find_devices(const DynamicLibrary& library, CudaDriver& cuda) {
  library.need("cuInit", cuda.init);
  library.need("cuDriverGetVersion", cuda.driver_get_version);
  library.need("cuGetErrorName", cuda.get_error_name);
  library.need("cuGetErrorString", cuda.get_error_string);
  library.need("cuDeviceGet", cuda.device_get);
  library.need("cuDeviceGetCount", cuda.device_get_count);
  library.need("cuDeviceGetName", cuda.device_get_name);
  need_either(library, "cuDeviceGetUuid_v2", "cuDeviceGetUuid", cuda.device_get_uuid);
  library.need("cuDeviceGetAttribute", cuda.device_get_attribute);
  library.need("cuDeviceGetPCIBusId", cuda.device_get_pci_bus_id);
}

void find_contexts(const DynamicLibrary& library, CudaDriver& cuda) {
  library.need("cuDevicePrimaryCtxRetain", cuda.device_primary_ctx_retain);
  need_either(library, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease",
              cuda.device_primary_ctx_release);
  library.need("cuCtxGetCurrent", cuda.ctx_get_current);
  library.need("cuCtxGetDevice", cuda.ctx_get_device);
  library.need("cuCtxPushCurrent_v2", cuda.ctx_push_current);
  library.need("cuCtxPopCurrent_v2", cuda.ctx_pop_current);
}

void find_memory(const DynamicLibrary& library, CudaDriver& cuda) {
  library.need("cuPointerGetAttributes", cuda.pointer_get_attributes);
  library.need("cuMemAlloc_v2", cuda.mem_alloc);
  library.need("cuMemFree_v2", cuda.mem_free);
  library.need("cuMemHostAlloc", cuda.mem_host_alloc);
  library.need("cuMemFreeHost", cuda.mem_free_host);
  library.need("cuMemcpyAsync", cuda.memcpy_async);
  library.need("cuMemcpyDtoHAsync_v2", cuda.memcpy_dtoh_async);
  library.need("cuMemcpyHtoDAsync_v2", cuda.memcpy_htod_async);
  library.need("cuMemsetD8Async", cuda.memset_d8_async);
}

void find_streams(const DynamicLibrary& library, CudaDriver& cuda) {
  library.need("cuStreamCreateWithPriority", cuda.stream_create_with_priority);
  library.need("cuStreamDestroy_v2", cuda.stream_destroy);
  library.need("cuStreamWaitEvent", cuda.stream_wait_event);
  library.need("cuStreamQuery", cuda.stream_query);
  library.need("cuStreamSynchronize", cuda.stream_synchronize);
  library.need("cuStreamIsCapturing", cuda.stream_is_capturing);
  library.need("cuStreamGetCtx", cuda.stream_get_ctx);
}

void find_events(const DynamicLibrary& library, CudaDriver& cuda) {
  library.need("cuEventCreate", cuda.event_create);
  library.need("cuEventDestroy_v2", cuda.event_destroy);
  library.need("cuEventRecord", cuda.event_record);
  library.need("cuEventQuery", cuda.event_query);
  library.need("cuEventSynchronize", cuda.event_synchronize);
  library.need("cuEventElapsedTime", cuda.event_elapsed_time);
}

void find_launches(const DynamicLibrary& library, CudaDriver& cuda) {
  library.need("cuLaunchHostFunc", cuda.launch_host_func);
  library.need("cuModuleLoadData", cuda.module_load_data);
  library.need("cuModuleUnload", cuda.module_unload);
  library.need("cuModuleGetFunction", cuda.module_get_function);
  library.need("cuLaunchKernel", cuda.launch_kernel);
}

int version_of(const DynamicLibrary& library) {
  decltype(CudaDriver::driver_get_version) get = nullptr;
  library.need("cuDriverGetVersion", get);
  int version = 0;
  const CudaResult result = get(&version);
  if (result == kCudaStubLibrary)
    throw Error(ECH_ERR_UNSUPPORTED, library.name() + " is the stub that programs are linked with");
  if (result != kCudaSuccess)
    throw Error(ECH_ERR_UNSUPPORTED,
                fmt::format("{} does not tell its version: error {}", library.name(), int{result}));
  if (version < kOldest)
    throw Error(ECH_ERR_UNSUPPORTED,
                fmt::format("{} is for CUDA {}, {} or newer is needed", library.name(),
                            cuda_version_text(version), cuda_version_text(kOldest)));
  return version;
}

struct Loaded {
  std::optional<CudaDriver> driver;
  std::string absence;
};

Loaded load() {
  try {
    return {load_cuda("libcuda.so.1"), {}};
  } catch (const Error& e) {
    return {std::nullopt, e.what()};
  }
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

const CudaDriver* cuda_driver() { return loaded().driver ? &*loaded().driver : nullptr; }

const std::string& cuda_absence() { return loaded().absence; }

CudaDriver load_cuda(const char* name) {
  DynamicLibrary library(name);
  library.keep();  // what it starts when it is called cannot be known
  const int version = version_of(library);
  CudaDriver cuda = cuda_functions(library);
  cuda.version = version;
  return cuda;
}

CudaDriver cuda_functions(const DynamicLibrary& library) {
  CudaDriver cuda{};
  find_devices(library, cuda);
  find_contexts(library, cuda);
  find_memory(library, cuda);
  find_streams(library, cuda);
  find_events(library, cuda);
  find_launches(library, cuda);
  return cuda;
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Error cuda_error(const CudaDriver& cuda, CudaResult result, const char* call) {
  const char* name = nullptr;
  const char* text = nullptr;
  cuda.get_error_name(result, &name);
  cuda.get_error_string(result, &text);
  std::string message =
      name != nullptr && text != nullptr
          ? fmt::format("{}: {} ({})", call, text, name)
          : fmt::format("{}: error {}, which this driver cannot name", call, int{result});
  if (result != kCudaOutOfMemory) return {ECH_ERR_SYSTEM, message};
  return {ECH_ERR_NO_MEMORY, message + "; nvidia-smi shows which processes hold GPU memory"};
}

}  // namespace echelon
