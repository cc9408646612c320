// SPDX-License-Identifier: Apache-2.0
// Our declarations of the CUDA driver against cuda.h. Compiled where that is found.
#include "transports/cuda/driver.h"
// After ours, which must not need it.
#include <cuda.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/gpu/same_type.h"

namespace echelon {
namespace {

using D = CudaDriver;

static_assert(sizeof(CUresult) == sizeof(CudaResult));
static_assert(int{CUDA_SUCCESS} == kCudaSuccess);
static_assert(int{CUDA_ERROR_INVALID_VALUE} == kCudaInvalidValue);
static_assert(int{CUDA_ERROR_OUT_OF_MEMORY} == kCudaOutOfMemory);
static_assert(int{CUDA_ERROR_NOT_INITIALIZED} == kCudaNotInitialized);
static_assert(int{CUDA_ERROR_STUB_LIBRARY} == kCudaStubLibrary);
static_assert(int{CUDA_ERROR_NO_DEVICE} == kCudaNoDevice);
static_assert(int{CUDA_ERROR_INVALID_DEVICE} == kCudaInvalidDevice);
static_assert(int{CUDA_ERROR_INVALID_CONTEXT} == kCudaInvalidContext);
static_assert(int{CUDA_ERROR_INVALID_HANDLE} == kCudaInvalidHandle);
static_assert(int{CUDA_ERROR_NOT_FOUND} == kCudaNotFound);
static_assert(int{CUDA_ERROR_NOT_READY} == kCudaNotReady);
static_assert(int{CUDA_ERROR_ILLEGAL_ADDRESS} == kCudaIllegalAddress);
static_assert(int{CUDA_ERROR_NOT_PERMITTED} == kCudaNotPermitted);
static_assert(int{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED} == kCudaCaptureUnsupported);

static_assert(int{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT} == kCudaMultiprocessors);
static_assert(int{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT} == kCudaAsyncEngines);
static_assert(int{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING} == kCudaUnifiedAddressing);
static_assert(int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR} == kCudaComputeMajor);
static_assert(int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR} == kCudaComputeMinor);
static_assert(int{CU_POINTER_ATTRIBUTE_CONTEXT} == kCudaPointerContext);
static_assert(int{CU_POINTER_ATTRIBUTE_MEMORY_TYPE} == kCudaPointerMemoryType);
static_assert(int{CU_POINTER_ATTRIBUTE_IS_MANAGED} == kCudaPointerIsManaged);
static_assert(int{CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL} == kCudaPointerDevice);
static_assert(int{CU_MEMORYTYPE_HOST} == kCudaMemoryHost);
static_assert(int{CU_MEMORYTYPE_DEVICE} == kCudaMemoryDevice);
static_assert(int{CU_STREAM_CAPTURE_STATUS_NONE} == kCudaNotCapturing);
static_assert(int{CU_STREAM_CAPTURE_STATUS_ACTIVE} == kCudaCapturing);
static_assert(int{CU_STREAM_CAPTURE_STATUS_INVALIDATED} == kCudaCaptureBroken);
static_assert(CU_MEMHOSTALLOC_PORTABLE == kCudaHostPortable);
static_assert(int{CU_STREAM_NON_BLOCKING} == kCudaStreamNonBlocking);
static_assert(int{CU_EVENT_DISABLE_TIMING} == kCudaEventDisableTiming);

static_assert(sizeof(CUuuid) == sizeof(CudaUuid) && alignof(CUuuid) == alignof(CudaUuid));
static_assert(std::is_same_v<CUdeviceptr, CudaPointer> && std::is_same_v<CUdevice, CudaDevice>);

static_assert(Matches<&cuInit, &D::init>());
static_assert(Matches<&cuDriverGetVersion, &D::driver_get_version>());
static_assert(Matches<&cuGetErrorName, &D::get_error_name>());
static_assert(Matches<&cuGetErrorString, &D::get_error_string>());
static_assert(Matches<&cuDeviceGet, &D::device_get>());
static_assert(Matches<&cuDeviceGetCount, &D::device_get_count>());
static_assert(Matches<&cuDeviceGetName, &D::device_get_name>());
static_assert(Matches<&cuDeviceGetUuid, &D::device_get_uuid>());
static_assert(Matches<&cuDeviceGetAttribute, &D::device_get_attribute>());
static_assert(Matches<&cuDeviceGetPCIBusId, &D::device_get_pci_bus_id>());
static_assert(Matches<&cuDevicePrimaryCtxRetain, &D::device_primary_ctx_retain>());
static_assert(Matches<&cuDevicePrimaryCtxRelease, &D::device_primary_ctx_release>());
static_assert(Matches<&cuCtxGetCurrent, &D::ctx_get_current>());
static_assert(Matches<&cuCtxGetDevice, &D::ctx_get_device>());
static_assert(Matches<&cuCtxPushCurrent, &D::ctx_push_current>());
static_assert(Matches<&cuCtxPopCurrent, &D::ctx_pop_current>());
static_assert(Matches<&cuPointerGetAttributes, &D::pointer_get_attributes>());
static_assert(Matches<&cuMemAlloc, &D::mem_alloc>());
static_assert(Matches<&cuMemFree, &D::mem_free>());
static_assert(Matches<&cuMemHostAlloc, &D::mem_host_alloc>());
static_assert(Matches<&cuMemFreeHost, &D::mem_free_host>());
static_assert(Matches<&cuMemcpyAsync, &D::memcpy_async>());
static_assert(Matches<&cuMemcpyDtoHAsync, &D::memcpy_dtoh_async>());
static_assert(Matches<&cuMemcpyHtoDAsync, &D::memcpy_htod_async>());
static_assert(Matches<&cuMemsetD8Async, &D::memset_d8_async>());
static_assert(Matches<&cuStreamCreateWithPriority, &D::stream_create_with_priority>());
static_assert(Matches<&cuStreamDestroy, &D::stream_destroy>());
static_assert(Matches<&cuStreamWaitEvent, &D::stream_wait_event>());
static_assert(Matches<&cuStreamQuery, &D::stream_query>());
static_assert(Matches<&cuStreamSynchronize, &D::stream_synchronize>());
static_assert(Matches<&cuStreamIsCapturing, &D::stream_is_capturing>());
static_assert(Matches<&cuStreamGetCtx, &D::stream_get_ctx>());
static_assert(Matches<&cuEventCreate, &D::event_create>());
static_assert(Matches<&cuEventDestroy, &D::event_destroy>());
static_assert(Matches<&cuEventRecord, &D::event_record>());
static_assert(Matches<&cuEventQuery, &D::event_query>());
static_assert(Matches<&cuEventSynchronize, &D::event_synchronize>());
static_assert(Matches<&cuEventElapsedTime, &D::event_elapsed_time>());
static_assert(Matches<&cuLaunchHostFunc, &D::launch_host_func>());
static_assert(Matches<&cuModuleLoadData, &D::module_load_data>());
static_assert(Matches<&cuModuleUnload, &D::module_unload>());
static_assert(Matches<&cuModuleGetFunction, &D::module_get_function>());
static_assert(Matches<&cuLaunchKernel, &D::launch_kernel>());

// What the comparison itself is worth.
static_assert(!kSameType<int(int), int(long)> && !kSameType<int(int*), int(const int*)>);
static_assert(!kSameType<int(unsigned), int(int)> && !kSameType<int(void**), int(void*)>);
static_assert(kSameType<CUresult(CUstream), CudaResult(CudaStream)>);

// The stub that programs are linked with has every function of the driver of that release.
TEST(CudaHeader, TheStubOfTheToolkitHasWhatWeNeedAndIsRefused) {
  const std::string stub = CUDA_STUB;
  if (!std::filesystem::exists(stub)) GTEST_SKIP() << "no stub at " << stub;
  const DynamicLibrary library(stub.c_str());
  EXPECT_NO_THROW(cuda_functions(library));
  try {
    load_cuda(stub.c_str());
    FAIL() << "a stub is no driver";
  } catch (const Error& e) {
    EXPECT_EQ(e.what(), stub + " is the stub that programs are linked with");
  }
}

}  // namespace
}  // namespace echelon
