// SPDX-License-Identifier: Apache-2.0
// The stand-in for libcuda.so.1: start, errors, devices, contexts.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/standin/standin_cuda_api.h"
#include "tests/standin/standin_cuda_state.h"

namespace echelon::standin {
namespace {

struct Named {
  CudaResult result;
  const char* name;
  const char* text;
};

constexpr Named kResults[] = {
    {kCudaSuccess, "CUDA_SUCCESS", "no error"},
    {kCudaInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kCudaOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kCudaNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kCudaNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kCudaInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kCudaInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kCudaInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kCudaNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kCudaNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kCudaIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
    {kCudaNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {kCudaCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
};

const Named* find(CudaResult result) {
  for (const Named& one : kResults)
    if (one.result == result) return &one;
  return nullptr;
}

CudaResult enter_for(std::string_view function, CudaDevice device) {
  const CudaResult error = enter(function);
  if (error != kCudaSuccess) return error;
  const bool there = device >= 0 && device < static_cast<int>(state().devices.size());
  return there ? kCudaSuccess : kCudaInvalidDevice;
}

}  // namespace

CudaResult cuInit(unsigned) {
  State& s = state();
  const int error = s.faults.next("cuInit");
  if (error != 0) return CudaResult(error);
  if (s.devices.empty()) return kCudaNoDevice;
  s.initialized_by = getpid();
  return kCudaSuccess;
}

CudaResult cuDriverGetVersion(int* version) {
  *version = state().version;
  return kCudaSuccess;
}

CudaResult cuGetErrorName(CudaResult result, const char** name) {
  const Named* found = find(result);
  *name = found != nullptr ? found->name : nullptr;
  return found != nullptr ? kCudaSuccess : kCudaInvalidValue;
}

CudaResult cuGetErrorString(CudaResult result, const char** text) {
  const Named* found = find(result);
  *text = found != nullptr ? found->text : nullptr;
  return found != nullptr ? kCudaSuccess : kCudaInvalidValue;
}

CudaResult cuDeviceGet(CudaDevice* device, int ordinal) {
  const CudaResult error = enter_for("cuDeviceGet", ordinal);
  if (error == kCudaSuccess) *device = ordinal;
  return error;
}

CudaResult cuDeviceGetCount(int* count) {
  const CudaResult error = enter("cuDeviceGetCount");
  if (error == kCudaSuccess) *count = static_cast<int>(state().devices.size());
  return error;
}

CudaResult cuDeviceGetName(char* name, int length, CudaDevice device) {
  const CudaResult error = enter_for("cuDeviceGetName", device);
  if (error == kCudaSuccess)
    std::snprintf(name, static_cast<std::size_t>(length), "stand-in for a GPU");
  return error;
}

// The same in every process of a host.
CudaResult cuDeviceGetUuid_v2(CudaUuid* uuid, CudaDevice device) {
  const CudaResult error = enter_for("cuDeviceGetUuid_v2", device);
  if (error != kCudaSuccess) return error;
  char host[64] = {};
  gethostname(host, sizeof host - 1);
  *uuid = {};
  std::memcpy(uuid->bytes, host, sizeof uuid->bytes - 1);
  uuid->bytes[sizeof uuid->bytes - 1] = static_cast<unsigned char>(device);
  return kCudaSuccess;
}

CudaResult cuDeviceGetAttribute(int* value, CudaDeviceAttribute which, CudaDevice device) {
  const CudaResult error = enter_for("cuDeviceGetAttribute", device);
  if (error != kCudaSuccess) return error;
  switch (which) {
    case kCudaMultiprocessors:
      *value = 4;
      return kCudaSuccess;
    case kCudaAsyncEngines:
      *value = 2;
      return kCudaSuccess;
    case kCudaUnifiedAddressing:
      *value = 1;
      return kCudaSuccess;
    case kCudaComputeMajor:
      *value = 8;
      return kCudaSuccess;
    case kCudaComputeMinor:
      *value = 0;
      return kCudaSuccess;
  }
  return kCudaInvalidValue;
}

CudaResult cuDeviceGetPCIBusId(char* id, int length, CudaDevice device) {
  const CudaResult error = enter_for("cuDeviceGetPCIBusId", device);
  if (error == kCudaSuccess)
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0",
                  static_cast<unsigned>(16 + device));
  return error;
}

CudaResult cuDevicePrimaryCtxRetain(CudaContext* context, CudaDevice device) {
  const CudaResult error = enter_for("cuDevicePrimaryCtxRetain", device);
  if (error != kCudaSuccess) return error;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Device& d = s.devices[device];
  if (d.references++ == 0 && d.null_stream == nullptr) d.null_stream = Stream::start(device, true);
  *context = context_of(device);
  return kCudaSuccess;
}

// What is in the context stays: nothing that the tests do depends on its end.
CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice device) {
  const CudaResult error = enter_for("cuDevicePrimaryCtxRelease_v2", device);
  if (error != kCudaSuccess) return error;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.devices[device].references == 0) return kCudaInvalidContext;
  --s.devices[device].references;
  return kCudaSuccess;
}

CudaResult cuCtxGetCurrent(CudaContext* context) {
  const CudaResult error = enter("cuCtxGetCurrent");
  if (error == kCudaSuccess) *context = context_of(current_device());
  return error;
}

CudaResult cuCtxGetDevice(CudaDevice* device) {
  const CudaResult error = enter("cuCtxGetDevice");
  if (error != kCudaSuccess) return error;
  if (current_device() < 0) return kCudaInvalidContext;
  *device = current_device();
  return kCudaSuccess;
}

CudaResult cuCtxPushCurrent_v2(CudaContext context) {
  const CudaResult error = enter("cuCtxPushCurrent_v2");
  if (error != kCudaSuccess) return error;
  const int device = device_of(context);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (device < 0 || s.devices[device].references == 0) return kCudaInvalidContext;
  context_stack().push_back(device);
  return kCudaSuccess;
}

CudaResult cuCtxPopCurrent_v2(CudaContext* context) {
  const CudaResult error = enter("cuCtxPopCurrent_v2");
  if (error != kCudaSuccess) return error;
  if (context_stack().empty()) return kCudaInvalidContext;
  if (context != nullptr) *context = context_of(current_device());
  context_stack().pop_back();
  return kCudaSuccess;
}

}  // namespace echelon::standin
