// SPDX-License-Identifier: Apache-2.0
// Our declarations of NVML against nvml.h. Compiled where that is found.
#include "lib/fabric/nvml.h"
// After ours, which must not need it.
#include <gtest/gtest.h>
#include <nvml.h>

#include <cstddef>

#include "tests/unit/gpu/same_type.h"

namespace echelon {
namespace {

using N = NvmlLibrary;

static_assert(int{NVML_SUCCESS} == kNvmlSuccess && int{NVML_ERROR_UNKNOWN} == kNvmlUnknown);
static_assert(int{NVML_ERROR_INVALID_ARGUMENT} == kNvmlInvalidArgument);
static_assert(int{NVML_ERROR_NOT_SUPPORTED} == kNvmlNotSupported);
static_assert(int{NVML_ERROR_DRIVER_NOT_LOADED} == kNvmlDriverNotLoaded);
static_assert(int{NVML_ERROR_GPU_IS_LOST} == kNvmlGpuIsLost);
static_assert(NVML_NVLINK_MAX_LINKS == kNvmlMostLinks);
static_assert(int{NVML_NVLINK_DEVICE_TYPE_GPU} == kNvmlEndGpu);
static_assert(int{NVML_NVLINK_DEVICE_TYPE_IBMNPU} == kNvmlEndCpu);
static_assert(int{NVML_NVLINK_DEVICE_TYPE_SWITCH} == kNvmlEndSwitch);
static_assert(int{NVML_NVLINK_DEVICE_TYPE_UNKNOWN} == kNvmlEndUnknown);
static_assert(NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON == kNvmlSpeedOfAll);
static_assert(NVML_FI_DEV_NVLINK_GET_SPEED == kNvmlSpeedOfOne);
static_assert(int{NVML_VALUE_TYPE_UNSIGNED_INT} == kNvmlUnsigned);
static_assert(int{NVML_FEATURE_ENABLED} == kNvmlOn);
static_assert(NVML_GPU_FABRIC_STATE_COMPLETED == kNvmlComplete);
#if NVML_API_VERSION >= 13
static_assert(unsigned{NVML_NVLINK_VERSION_1_0} == kNvmlLink1);
static_assert(unsigned{NVML_NVLINK_VERSION_2_0} == kNvmlLink2);
static_assert(unsigned{NVML_NVLINK_VERSION_2_2} == kNvmlLink22);
static_assert(unsigned{NVML_NVLINK_VERSION_3_0} == kNvmlLink3);
static_assert(unsigned{NVML_NVLINK_VERSION_3_1} == kNvmlLink31);
static_assert(unsigned{NVML_NVLINK_VERSION_4_0} == kNvmlLink4);
static_assert(unsigned{NVML_NVLINK_VERSION_5_0} == kNvmlLink5);
#endif

static_assert(Matches<&nvmlInit_v2, &N::init>());
static_assert(Matches<&nvmlShutdown, &N::shutdown>());
static_assert(Matches<&nvmlErrorString, &N::error_string>());
static_assert(Matches<&nvmlSystemGetDriverVersion, &N::system_get_driver_version>());
static_assert(Matches<&nvmlDeviceGetCount_v2, &N::device_get_count>());
static_assert(Matches<&nvmlDeviceGetHandleByIndex_v2, &N::device_get_handle_by_index>());
static_assert(Matches<&nvmlDeviceGetName, &N::device_get_name>());
static_assert(Matches<&nvmlDeviceGetUUID, &N::device_get_uuid>());
static_assert(Matches<&nvmlDeviceGetPciInfo_v3, &N::device_get_pci_info>());
static_assert(
    Matches<&nvmlDeviceGetMaxPcieLinkGeneration, &N::device_get_max_pcie_link_generation>());
static_assert(Matches<&nvmlDeviceGetMaxPcieLinkWidth, &N::device_get_max_pcie_link_width>());
static_assert(Matches<&nvmlDeviceGetNvLinkState, &N::device_get_nvlink_state>());
static_assert(
    Matches<&nvmlDeviceGetNvLinkRemoteDeviceType, &N::device_get_nvlink_remote_device_type>());
static_assert(Matches<&nvmlDeviceGetNvLinkVersion, &N::device_get_nvlink_version>());
static_assert(
    Matches<&nvmlDeviceGetNvLinkRemotePciInfo_v2, &N::device_get_nvlink_remote_pci_info>());
static_assert(Matches<&nvmlDeviceGetFieldValues, &N::device_get_field_values>());
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // since 13, for one with a version
static_assert(Matches<&nvmlDeviceGetGpuFabricInfo, &N::device_get_gpu_fabric_info>());
#pragma GCC diagnostic pop

static_assert(sizeof(NvmlPci) == sizeof(nvmlPciInfo_t));
static_assert(offsetof(NvmlPci, domain) == offsetof(nvmlPciInfo_t, domain));
static_assert(offsetof(NvmlPci, device_id) == offsetof(nvmlPciInfo_t, pciDeviceId));
static_assert(offsetof(NvmlPci, address) == offsetof(nvmlPciInfo_t, busId));
static_assert(sizeof(NvmlField) == sizeof(nvmlFieldValue_t));
static_assert(offsetof(NvmlField, scope) == offsetof(nvmlFieldValue_t, scopeId));
static_assert(offsetof(NvmlField, type) == offsetof(nvmlFieldValue_t, valueType));
static_assert(offsetof(NvmlField, result) == offsetof(nvmlFieldValue_t, nvmlReturn));
static_assert(offsetof(NvmlField, value) == offsetof(nvmlFieldValue_t, value));
static_assert(sizeof(NvmlFabric) == sizeof(nvmlGpuFabricInfo_t));
static_assert(offsetof(NvmlFabric, status) == offsetof(nvmlGpuFabricInfo_t, status));
static_assert(offsetof(NvmlFabric, clique) == offsetof(nvmlGpuFabricInfo_t, cliqueId));
static_assert(offsetof(NvmlFabric, state) == offsetof(nvmlGpuFabricInfo_t, state));

// All of it is checked when this is compiled; here that the header is the one of a known version.
TEST(NvmlHeader, IsOfAVersionThatHasBeenComparedInFull) { EXPECT_GE(NVML_API_VERSION, 12); }

}  // namespace
}  // namespace echelon
