// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/nvml.h"

#include <fmt/format.h>

#include <optional>

#include "lib/fabric/loaders.h"

namespace echelon {
namespace {

struct Loaded {
  std::optional<NvmlLibrary> library;
  std::string absence;
};

Loaded load() {
  try {
    return {load_nvml_library("libnvidia-ml.so.1"), {}};
  } catch (const Error& e) {
    return {std::nullopt, e.what()};
  }
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

void find_optional(const DynamicLibrary& library, NvmlLibrary& nvml) {
  library.find("nvmlDeviceGetMaxPcieLinkGeneration", nvml.device_get_max_pcie_link_generation);
  library.find("nvmlDeviceGetMaxPcieLinkWidth", nvml.device_get_max_pcie_link_width);
  library.find("nvmlDeviceGetNvLinkState", nvml.device_get_nvlink_state);
  library.find("nvmlDeviceGetNvLinkVersion", nvml.device_get_nvlink_version);
  library.find("nvmlDeviceGetNvLinkRemotePciInfo_v2", nvml.device_get_nvlink_remote_pci_info);
  library.find("nvmlDeviceGetNvLinkRemoteDeviceType", nvml.device_get_nvlink_remote_device_type);
  library.find("nvmlDeviceGetFieldValues", nvml.device_get_field_values);
  library.find("nvmlDeviceGetGpuFabricInfo", nvml.device_get_gpu_fabric_info);
}

}  // namespace

const NvmlLibrary* nvml_library() { return loaded().library ? &*loaded().library : nullptr; }

const std::string& nvml_absence() { return loaded().absence; }

NvmlLibrary load_nvml_library(const char* name) {
  DynamicLibrary library(name);
  library.keep();  // what it starts when it is called cannot be known
  NvmlLibrary nvml{};
  library.need("nvmlInit_v2", nvml.init);
  library.need("nvmlShutdown", nvml.shutdown);
  library.need("nvmlErrorString", nvml.error_string);
  library.need("nvmlSystemGetDriverVersion", nvml.system_get_driver_version);
  library.need("nvmlDeviceGetCount_v2", nvml.device_get_count);
  library.need("nvmlDeviceGetHandleByIndex_v2", nvml.device_get_handle_by_index);
  library.need("nvmlDeviceGetName", nvml.device_get_name);
  library.need("nvmlDeviceGetUUID", nvml.device_get_uuid);
  library.need("nvmlDeviceGetPciInfo_v3", nvml.device_get_pci_info);
  find_optional(library, nvml);
  return nvml;
}

Error nvml_error(const NvmlLibrary& nvml, NvmlResult result, const char* call) {
  const char* text = nvml.error_string(result);
  return {ECH_ERR_UNSUPPORTED,
          fmt::format("{}: {} ({})", call, printable(text != nullptr ? text : "unknown error"),
                      int{result})};
}

NvmlSession::NvmlSession(const NvmlLibrary& nvml) : nvml_(nvml) {
  if (const NvmlResult result = nvml.init(); result != kNvmlSuccess)
    throw nvml_error(nvml, result, "nvmlInit_v2");
}

NvmlSession::~NvmlSession() { nvml_.shutdown(); }

std::string nvml_driver_version() {
  const NvmlLibrary* nvml = nvml_library();
  if (nvml == nullptr) throw Error(ECH_ERR_UNSUPPORTED, nvml_absence());
  const NvmlSession session(*nvml);
  char version[80] = "";
  const NvmlResult result = nvml->system_get_driver_version(version, sizeof version);
  if (result != kNvmlSuccess) throw nvml_error(*nvml, result, "nvmlSystemGetDriverVersion");
  version[sizeof version - 1] = '\0';
  return printable(version);
}

}  // namespace echelon
