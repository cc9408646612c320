// SPDX-License-Identifier: Apache-2.0
// The functions of the stand-in for libnvidia-ml.so.1. Their types are those of the table by which
// the library calls NVML, so that the compiler refuses a stand-in that differs from it. Compiled
// with STANDIN_NVML_OLD, it has only those that every version has.
//
// Settings, from the environment, read by every nvmlInit_v2:
//   STANDIN_NVML_DRIVER  version of the driver ("550.54.15")
//   STANDIN_NVML_GPUS    number of GPUs (that of the stand-in for CUDA, with the same addresses)
//   STANDIN_NVML_LINKS   active NVLinks: "0-1:4,1-s2:6x26562" are 4 of GPU 0 to GPU 1, which has
//                        them too, and 6 of GPU 1 to a switch, each of 26562 MB/s. Other ends: "o",
//                        a switch outside the host; "c", a CPU; "x", a GPU that is not shown; "?",
//                        of which nothing is told
//   STANDIN_NVML_FIELD   which field knows speeds: 164, 90 or 0 for none (164)
//   STANDIN_NVML_LINK    version of the links, as nvmlDeviceGetNvLinkVersion tells (6)
//   STANDIN_NVML_PCIE    "5x16", generation and lanes ("4x16")
//   STANDIN_NVML_FABRIC  "7:2:3", the first byte of the uuid, clique and state ("": not supported)
//   STANDIN_NVML_FAIL    errors to give, as in standin_faults.h
#pragma once

#include "lib/fabric/nvml.h"
#include "tests/standin/standin_function.h"

#pragma GCC visibility push(default)
extern "C" {
namespace echelon::standin {

Fn<&NvmlLibrary::init> nvmlInit_v2;
Fn<&NvmlLibrary::shutdown> nvmlShutdown;
Fn<&NvmlLibrary::error_string> nvmlErrorString;
Fn<&NvmlLibrary::system_get_driver_version> nvmlSystemGetDriverVersion;
Fn<&NvmlLibrary::device_get_count> nvmlDeviceGetCount_v2;
Fn<&NvmlLibrary::device_get_handle_by_index> nvmlDeviceGetHandleByIndex_v2;
Fn<&NvmlLibrary::device_get_name> nvmlDeviceGetName;
Fn<&NvmlLibrary::device_get_uuid> nvmlDeviceGetUUID;
Fn<&NvmlLibrary::device_get_pci_info> nvmlDeviceGetPciInfo_v3;
#ifndef STANDIN_NVML_OLD
Fn<&NvmlLibrary::device_get_max_pcie_link_generation> nvmlDeviceGetMaxPcieLinkGeneration;
Fn<&NvmlLibrary::device_get_max_pcie_link_width> nvmlDeviceGetMaxPcieLinkWidth;
Fn<&NvmlLibrary::device_get_nvlink_state> nvmlDeviceGetNvLinkState;
Fn<&NvmlLibrary::device_get_nvlink_version> nvmlDeviceGetNvLinkVersion;
Fn<&NvmlLibrary::device_get_nvlink_remote_pci_info> nvmlDeviceGetNvLinkRemotePciInfo_v2;
Fn<&NvmlLibrary::device_get_nvlink_remote_device_type> nvmlDeviceGetNvLinkRemoteDeviceType;
Fn<&NvmlLibrary::device_get_field_values> nvmlDeviceGetFieldValues;
Fn<&NvmlLibrary::device_get_gpu_fabric_info> nvmlDeviceGetGpuFabricInfo;
#endif

}  // namespace echelon::standin
}
#pragma GCC visibility pop
