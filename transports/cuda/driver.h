// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver interface (libcuda.so.1) that Echelon uses, in declarations of our
// own: no CUDA header is needed to build, no CUDA library to start. docs/gpu.md says why the driver
// and not the runtime. Names are CUDA's without the prefix: mem_alloc is cuMemAlloc.
//
// Thread safety: the functions are CUDA's own, and may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/dynamic_library.h"
#include "lib/base/error.h"

namespace echelon {

// Handles. A CUstream is also a cudaStream_t, and so on for events.
using CudaDevice = int;
using CudaPointer = unsigned long long;  // CUdeviceptr
using CudaContext = struct CudaContextObject*;
using CudaStream = struct CudaStreamObject*;
using CudaEvent = struct CudaEventObject*;
using CudaModule = struct CudaModuleObject*;
using CudaFunction = struct CudaFunctionObject*;
using CudaHostFunction = void (*)(void* data);
struct CudaUuid {
  unsigned char bytes[16];
};

// Those that are told apart or given by name here; there are many more.
enum CudaResult : int {
  kCudaSuccess = 0,
  kCudaInvalidValue = 1,
  kCudaOutOfMemory = 2,
  kCudaNotInitialized = 3,
  kCudaStubLibrary = 34,
  kCudaNoDevice = 100,
  kCudaInvalidDevice = 101,
  kCudaInvalidContext = 201,
  kCudaInvalidHandle = 400,
  kCudaNotFound = 500,
  kCudaNotReady = 600,
  kCudaIllegalAddress = 700,
  kCudaNotPermitted = 800,
  kCudaCaptureUnsupported = 900,
};

enum CudaDeviceAttribute : int {
  kCudaMultiprocessors = 16,
  kCudaAsyncEngines = 40,
  kCudaUnifiedAddressing = 41,
  kCudaComputeMajor = 75,
  kCudaComputeMinor = 76,
};

enum CudaPointerAttribute : int {
  kCudaPointerContext = 1,
  kCudaPointerMemoryType = 2,  // an unsigned int: CudaMemoryType
  kCudaPointerIsManaged = 8,   // an unsigned int
  kCudaPointerDevice = 9,      // an int
};

enum CudaMemoryType : int { kCudaMemoryHost = 1, kCudaMemoryDevice = 2 };

enum CudaCaptureStatus : int { kCudaNotCapturing = 0, kCudaCapturing = 1, kCudaCaptureBroken = 2 };

inline constexpr unsigned kCudaHostPortable = 1;        // cuMemHostAlloc
inline constexpr unsigned kCudaStreamNonBlocking = 1;   // cuStreamCreateWithPriority
inline constexpr unsigned kCudaEventDisableTiming = 2;  // cuEventCreate

// Every pointer is set.
struct CudaDriver {
  int version = 0;  // 12040 is CUDA 12.4

  CudaResult (*init)(unsigned flags);
  CudaResult (*driver_get_version)(int* version);
  CudaResult (*get_error_name)(CudaResult result, const char** name);
  CudaResult (*get_error_string)(CudaResult result, const char** text);

  CudaResult (*device_get)(CudaDevice* device, int ordinal);
  CudaResult (*device_get_count)(int* count);
  CudaResult (*device_get_name)(char* name, int length, CudaDevice device);
  CudaResult (*device_get_uuid)(CudaUuid* uuid, CudaDevice device);
  CudaResult (*device_get_attribute)(int* value, CudaDeviceAttribute which, CudaDevice device);
  CudaResult (*device_get_pci_bus_id)(char* id, int length, CudaDevice device);

  CudaResult (*device_primary_ctx_retain)(CudaContext* context, CudaDevice device);
  CudaResult (*device_primary_ctx_release)(CudaDevice device);
  CudaResult (*ctx_get_current)(CudaContext* context);
  CudaResult (*ctx_get_device)(CudaDevice* device);
  CudaResult (*ctx_push_current)(CudaContext context);
  CudaResult (*ctx_pop_current)(CudaContext* context);

  CudaResult (*pointer_get_attributes)(unsigned count, CudaPointerAttribute* which, void** values,
                                       CudaPointer pointer);
  CudaResult (*mem_alloc)(CudaPointer* pointer, std::size_t bytes);
  CudaResult (*mem_free)(CudaPointer pointer);
  CudaResult (*mem_host_alloc)(void** pointer, std::size_t bytes, unsigned flags);
  CudaResult (*mem_free_host)(void* pointer);
  CudaResult (*memcpy_async)(CudaPointer to, CudaPointer from, std::size_t bytes,
                             CudaStream stream);
  CudaResult (*memcpy_dtoh_async)(void* to, CudaPointer from, std::size_t bytes, CudaStream stream);
  CudaResult (*memcpy_htod_async)(CudaPointer to, const void* from, std::size_t bytes,
                                  CudaStream stream);
  CudaResult (*memset_d8_async)(CudaPointer to, unsigned char value, std::size_t bytes,
                                CudaStream stream);

  CudaResult (*stream_create_with_priority)(CudaStream* stream, unsigned flags, int priority);
  CudaResult (*stream_destroy)(CudaStream stream);
  CudaResult (*stream_wait_event)(CudaStream stream, CudaEvent event, unsigned flags);
  CudaResult (*stream_query)(CudaStream stream);
  CudaResult (*stream_synchronize)(CudaStream stream);
  CudaResult (*stream_is_capturing)(CudaStream stream, CudaCaptureStatus* status);
  CudaResult (*stream_get_ctx)(CudaStream stream, CudaContext* context);

  CudaResult (*event_create)(CudaEvent* event, unsigned flags);
  CudaResult (*event_destroy)(CudaEvent event);
  CudaResult (*event_record)(CudaEvent event, CudaStream stream);
  CudaResult (*event_query)(CudaEvent event);
  CudaResult (*event_synchronize)(CudaEvent event);
  CudaResult (*event_elapsed_time)(float* milliseconds, CudaEvent begin, CudaEvent end);

  CudaResult (*launch_host_func)(CudaStream stream, CudaHostFunction function, void* data);
  CudaResult (*module_load_data)(CudaModule* module, const void* image);
  CudaResult (*module_unload)(CudaModule module);
  CudaResult (*module_get_function)(CudaFunction* function, CudaModule module, const char* name);
  CudaResult (*launch_kernel)(CudaFunction function, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, CudaStream stream, void** parameters,
                              void** extra);
};

// The driver of this process, loaded at the first call and never unloaded; nullptr without one.
// Does not initialize CUDA, which takes time and memory: init(0) is for those who use a device.
const CudaDriver* cuda_driver();

// Why there is none, on one line; "" when there is one.
const std::string& cuda_absence();

// The same for any library, and every time anew. Throws ECH_ERR_UNSUPPORTED.
CudaDriver load_cuda(const char* name);

// The functions alone; the version is not looked at. The library must stay loaded.
CudaDriver cuda_functions(const DynamicLibrary& library);

std::string cuda_version_text(int version);  // "12.4"

// "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)". `call` is what gave `result`.
Error cuda_error(const CudaDriver& cuda, CudaResult result, const char* call);

// Throws unless `result` is success.
inline void cuda_check(const CudaDriver& cuda, CudaResult result, const char* call) {
  if (result != kCudaSuccess) throw cuda_error(cuda, result, call);
}

}  // namespace echelon
