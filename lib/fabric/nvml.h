// SPDX-License-Identifier: Apache-2.0
// The part of NVML, NVIDIA's library that tells of GPUs and their links, that Echelon uses, in
// declarations of our own: no header of it is needed to build. Names are NVML's without the prefix:
// device_get_uuid is nvmlDeviceGetUUID.
#pragma once

#include <string>

#include "lib/base/dynamic_library.h"
#include "lib/base/error.h"

namespace echelon {

using NvmlDevice = struct NvmlDeviceObject*;

enum NvmlResult : int {
  kNvmlSuccess = 0,
  kNvmlInvalidArgument = 2,
  kNvmlNotSupported = 3,
  kNvmlDriverNotLoaded = 9,
  kNvmlGpuIsLost = 15,
  kNvmlUnknown = 999,
};

inline constexpr unsigned kNvmlMostLinks = 18;  // of one GPU

struct NvmlPci {
  char legacy_address[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  char address[32];  // "00000000:2B:00.0"
};

enum NvmlSwitch : int { kNvmlOff = 0, kNvmlOn = 1 };

enum NvmlLinkEnd : int {
  kNvmlEndGpu = 0,
  kNvmlEndCpu = 1,  // of a POWER machine
  kNvmlEndSwitch = 2,
  kNvmlEndUnknown = 255,
};

enum NvmlLinkVersion : unsigned {
  kNvmlLink1 = 1,
  kNvmlLink2 = 2,
  kNvmlLink22 = 3,
  kNvmlLink3 = 4,
  kNvmlLink31 = 5,
  kNvmlLink4 = 6,
  kNvmlLink5 = 7,
};

inline constexpr unsigned kNvmlSpeedOfAll = 90;    // field: MB/s of each active link
inline constexpr unsigned kNvmlSpeedOfOne = 164;   // field: MB/s of the link that `scope` says
inline constexpr int kNvmlUnsigned = 1;            // type of a value
inline constexpr unsigned char kNvmlComplete = 3;  // state of a GPU's entry into its fabric

struct NvmlField {
  unsigned field = 0, scope = 0;
  long long timestamp = 0, took = 0;
  int type = 0;
  NvmlResult result = kNvmlSuccess;
  union {
    double real;
    unsigned number;
    unsigned long long large;
  } value = {};
};

// The NVLinks that a GPU is part of beyond its host.
struct NvmlFabric {
  unsigned char uuid[16];
  NvmlResult status;  // to be looked at when the state is "complete"
  unsigned clique;    // those of one uuid and clique reach each other
  unsigned char state;
};

struct NvmlLibrary {
  NvmlResult (*init)();
  NvmlResult (*shutdown)();
  const char* (*error_string)(NvmlResult result);
  NvmlResult (*system_get_driver_version)(char* version, unsigned bytes);
  NvmlResult (*device_get_count)(unsigned* count);
  NvmlResult (*device_get_handle_by_index)(unsigned index, NvmlDevice* device);
  NvmlResult (*device_get_name)(NvmlDevice device, char* name, unsigned bytes);
  NvmlResult (*device_get_uuid)(NvmlDevice device, char* uuid, unsigned bytes);
  NvmlResult (*device_get_pci_info)(NvmlDevice device, NvmlPci* pci);

  // What not every version has; nullptr then.
  NvmlResult (*device_get_max_pcie_link_generation)(NvmlDevice device, unsigned* generation);
  NvmlResult (*device_get_max_pcie_link_width)(NvmlDevice device, unsigned* lanes);
  NvmlResult (*device_get_nvlink_state)(NvmlDevice device, unsigned link, NvmlSwitch* active);
  NvmlResult (*device_get_nvlink_version)(NvmlDevice device, unsigned link, unsigned* version);
  NvmlResult (*device_get_nvlink_remote_pci_info)(NvmlDevice device, unsigned link, NvmlPci* pci);
  NvmlResult (*device_get_nvlink_remote_device_type)(NvmlDevice device, unsigned link,
                                                     NvmlLinkEnd* end);
  NvmlResult (*device_get_field_values)(NvmlDevice device, int count, NvmlField* fields);
  NvmlResult (*device_get_gpu_fabric_info)(NvmlDevice device, NvmlFabric* fabric);
};

// libnvidia-ml.so.1, loaded at the first call and never unloaded; nullptr when it cannot be used.
const NvmlLibrary* nvml_library();

// Why not, on one line; "" when it can.
const std::string& nvml_absence();

// The same for any library, and every time anew. Throws ECH_ERR_UNSUPPORTED.
NvmlLibrary load_nvml_library(const char* name);

// "nvmlInit_v2: Driver Not Loaded (9)".
Error nvml_error(const NvmlLibrary& nvml, NvmlResult result, const char* call);

// As long as one lives, NVML may be asked.
class NvmlSession {
 public:
  explicit NvmlSession(const NvmlLibrary& nvml);  // throws when the driver does not answer
  ~NvmlSession();
  NvmlSession(const NvmlSession&) = delete;

 private:
  const NvmlLibrary& nvml_;
};

// Of the driver that NVML speaks to: "550.54.15". Throws why that cannot be asked.
std::string nvml_driver_version();

}  // namespace echelon
