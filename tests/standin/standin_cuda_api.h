// SPDX-License-Identifier: Apache-2.0
// The functions of the stand-in for libcuda.so.1. Their types are those of the table by which the
// library calls CUDA, so that the compiler refuses a stand-in that differs from it.
#pragma once

#include "tests/standin/standin_function.h"
#include "transports/cuda/driver.h"

#pragma GCC visibility push(default)
extern "C" {
namespace echelon::standin {

Fn<&CudaDriver::init> cuInit;
Fn<&CudaDriver::driver_get_version> cuDriverGetVersion;
Fn<&CudaDriver::get_error_name> cuGetErrorName;
Fn<&CudaDriver::get_error_string> cuGetErrorString;
Fn<&CudaDriver::device_get> cuDeviceGet;
Fn<&CudaDriver::device_get_count> cuDeviceGetCount;
Fn<&CudaDriver::device_get_name> cuDeviceGetName;
Fn<&CudaDriver::device_get_uuid> cuDeviceGetUuid_v2;
Fn<&CudaDriver::device_get_attribute> cuDeviceGetAttribute;
Fn<&CudaDriver::device_get_pci_bus_id> cuDeviceGetPCIBusId;
Fn<&CudaDriver::device_primary_ctx_retain> cuDevicePrimaryCtxRetain;
Fn<&CudaDriver::device_primary_ctx_release> cuDevicePrimaryCtxRelease_v2;
Fn<&CudaDriver::ctx_get_current> cuCtxGetCurrent;
Fn<&CudaDriver::ctx_get_device> cuCtxGetDevice;
Fn<&CudaDriver::ctx_push_current> cuCtxPushCurrent_v2;
Fn<&CudaDriver::ctx_pop_current> cuCtxPopCurrent_v2;
Fn<&CudaDriver::pointer_get_attributes> cuPointerGetAttributes;
Fn<&CudaDriver::mem_alloc> cuMemAlloc_v2;
Fn<&CudaDriver::mem_free> cuMemFree_v2;
Fn<&CudaDriver::mem_host_alloc> cuMemHostAlloc;
Fn<&CudaDriver::mem_free_host> cuMemFreeHost;
Fn<&CudaDriver::memcpy_async> cuMemcpyAsync;
Fn<&CudaDriver::memcpy_dtoh_async> cuMemcpyDtoHAsync_v2;
Fn<&CudaDriver::memcpy_htod_async> cuMemcpyHtoDAsync_v2;
Fn<&CudaDriver::memset_d8_async> cuMemsetD8Async;
Fn<&CudaDriver::stream_create_with_priority> cuStreamCreateWithPriority;
Fn<&CudaDriver::stream_destroy> cuStreamDestroy_v2;
Fn<&CudaDriver::stream_wait_event> cuStreamWaitEvent;
Fn<&CudaDriver::stream_query> cuStreamQuery;
Fn<&CudaDriver::stream_synchronize> cuStreamSynchronize;
Fn<&CudaDriver::stream_is_capturing> cuStreamIsCapturing;
Fn<&CudaDriver::stream_get_ctx> cuStreamGetCtx;
Fn<&CudaDriver::event_create> cuEventCreate;
Fn<&CudaDriver::event_destroy> cuEventDestroy_v2;
Fn<&CudaDriver::event_record> cuEventRecord;
Fn<&CudaDriver::event_query> cuEventQuery;
Fn<&CudaDriver::event_synchronize> cuEventSynchronize;
Fn<&CudaDriver::event_elapsed_time> cuEventElapsedTime;
Fn<&CudaDriver::launch_host_func> cuLaunchHostFunc;
Fn<&CudaDriver::module_load_data> cuModuleLoadData;
Fn<&CudaDriver::module_unload> cuModuleUnload;
Fn<&CudaDriver::module_get_function> cuModuleGetFunction;
Fn<&CudaDriver::launch_kernel> cuLaunchKernel;

// Not in the table: for tests that need such memory.
CudaResult cuMemAllocManaged(CudaPointer* pointer, std::size_t bytes, unsigned flags);

}  // namespace echelon::standin
}
#pragma GCC visibility pop
