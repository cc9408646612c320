// SPDX-License-Identifier: Apache-2.0
// The stand-in for libnvidia-ml.so.1.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <vector>

#include "tests/standin/standin_faults.h"
#include "tests/standin/standin_nvml_api.h"

namespace echelon::standin {
namespace {

struct Link {
  std::string end;  // as in STANDIN_NVML_LINKS; of a GPU its number
  unsigned megabytes = 25000;
};

std::string text_from(const char* variable, const char* fallback) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : fallback;
}

unsigned count_from(const char* variable, double fallback) {
  return static_cast<unsigned>(number_from(variable, fallback));
}

struct State {
  std::string driver = text_from("STANDIN_NVML_DRIVER", "550.54.15");
  unsigned field = count_from("STANDIN_NVML_FIELD", kNvmlSpeedOfOne);
  unsigned version = count_from("STANDIN_NVML_LINK", kNvmlLink4);
  std::string fabric = text_from("STANDIN_NVML_FABRIC", "");
  unsigned generation = 0, lanes = 0;
  std::vector<std::vector<Link>> gpus{
      count_from("STANDIN_NVML_GPUS", number_from("STANDIN_CUDA_DEVICES", 1))};
  Faults faults{"STANDIN_NVML_FAIL"};

  State();
  void add_links(const std::string& text);
};

State::State() {
  const std::string pcie = text_from("STANDIN_NVML_PCIE", "4x16");
  if (std::sscanf(pcie.c_str(), "%ux%u", &generation, &lanes) != 2)
    give_up("STANDIN_NVML_PCIE: \"" + pcie + "\" is not GENERATIONxLANES");
  std::istringstream list(text_from("STANDIN_NVML_LINKS", ""));
  for (std::string one; std::getline(list, one, ',');) add_links(one);
}

void State::add_links(const std::string& text) {
  unsigned gpu = 0, count = 0;
  Link link;
  char end[16] = "";
  const int said =
      std::sscanf(text.c_str(), "%u-%15[^:]:%ux%u", &gpu, end, &count, &link.megabytes);
  if (said < 3 || gpu >= gpus.size())
    give_up("STANDIN_NVML_LINKS: \"" + text + "\" is not GPU-END:COUNTxSPEED");
  link.end = end;
  for (unsigned i = 0; i < count; ++i) gpus[gpu].push_back(link);
  const bool other = link.end.find_first_not_of("0123456789") == std::string::npos;
  link.end = std::to_string(gpu);
  for (unsigned i = 0; other && i < count; ++i) gpus.at(std::atoi(end)).push_back(link);
}

std::unique_ptr<State> state;  // while it is initialized
int users = 0;

NvmlResult enter(const char* function) {
  return state == nullptr ? NvmlResult{1} : NvmlResult(state->faults.next(function));
}

unsigned index_of(NvmlDevice device) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)) - 1;
}

NvmlResult give(const std::string& text, char* out, unsigned bytes) {
  if (text.size() >= bytes) return NvmlResult{7};
  std::strcpy(out, text.c_str());
  return kNvmlSuccess;
}

void set_address(NvmlPci& pci, unsigned bus) {
  pci = {};
  pci.bus = bus;
  std::snprintf(pci.address, sizeof pci.address, "00000000:%02X:00.0", bus);
}

}  // namespace

NvmlResult nvmlInit_v2() {
  if (users == 0) state = std::make_unique<State>();
  const NvmlResult error = enter("nvmlInit_v2");
  if (error == kNvmlSuccess) ++users;
  if (users == 0) state.reset();
  return error;
}

NvmlResult nvmlShutdown() {
  if (users == 0) give_up("nvmlShutdown without nvmlInit_v2");
  if (--users == 0) state.reset();
  return kNvmlSuccess;
}

const char* nvmlErrorString(NvmlResult result) {
  if (result == kNvmlDriverNotLoaded) return "Driver Not Loaded";
  if (result == kNvmlNotSupported) return "Not Supported";
  return result == kNvmlGpuIsLost ? "GPU is lost" : "Unknown Error";
}

NvmlResult nvmlSystemGetDriverVersion(char* version, unsigned bytes) {
  const NvmlResult error = enter("nvmlSystemGetDriverVersion");
  return error != kNvmlSuccess ? error : give(state->driver, version, bytes);
}

NvmlResult nvmlDeviceGetCount_v2(unsigned* count) {
  const NvmlResult error = enter("nvmlDeviceGetCount_v2");
  if (error == kNvmlSuccess) *count = static_cast<unsigned>(state->gpus.size());
  return error;
}

NvmlResult nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device) {
  const NvmlResult error = enter("nvmlDeviceGetHandleByIndex_v2");
  if (error != kNvmlSuccess) return error;
  if (index >= state->gpus.size()) return kNvmlInvalidArgument;
  *device = reinterpret_cast<NvmlDevice>(std::uintptr_t{index} + 1);
  return kNvmlSuccess;
}

NvmlResult nvmlDeviceGetName(NvmlDevice, char* name, unsigned bytes) {
  const NvmlResult error = enter("nvmlDeviceGetName");
  return error != kNvmlSuccess ? error : give("Stand-in", name, bytes);
}

NvmlResult nvmlDeviceGetUUID(NvmlDevice device, char* uuid, unsigned bytes) {
  const NvmlResult error = enter("nvmlDeviceGetUUID");
  return error != kNvmlSuccess ? error
                               : give("GPU-" + std::to_string(index_of(device)), uuid, bytes);
}

NvmlResult nvmlDeviceGetPciInfo_v3(NvmlDevice device, NvmlPci* pci) {
  const NvmlResult error = enter("nvmlDeviceGetPciInfo_v3");
  if (error == kNvmlSuccess) set_address(*pci, 16 + index_of(device));
  return error;
}

#ifndef STANDIN_NVML_OLD
namespace {

// The link, if the GPU has it.
const Link* find(NvmlDevice device, unsigned link) {
  const std::vector<Link>& links = state->gpus.at(index_of(device));
  return link < links.size() ? &links[link] : nullptr;
}

}  // namespace

NvmlResult nvmlDeviceGetMaxPcieLinkGeneration(NvmlDevice, unsigned* generation) {
  *generation = state->generation;
  return enter("nvmlDeviceGetMaxPcieLinkGeneration");
}

NvmlResult nvmlDeviceGetMaxPcieLinkWidth(NvmlDevice, unsigned* lanes) {
  *lanes = state->lanes;
  return enter("nvmlDeviceGetMaxPcieLinkWidth");
}

// A GPU has more links than are active.
NvmlResult nvmlDeviceGetNvLinkState(NvmlDevice device, unsigned link, NvmlSwitch* active) {
  const NvmlResult error = enter("nvmlDeviceGetNvLinkState");
  if (error != kNvmlSuccess) return error;
  if (link >= 12) return kNvmlInvalidArgument;
  *active = find(device, link) != nullptr ? kNvmlOn : kNvmlOff;
  return kNvmlSuccess;
}

NvmlResult nvmlDeviceGetNvLinkVersion(NvmlDevice, unsigned, unsigned* version) {
  *version = state->version;
  return enter("nvmlDeviceGetNvLinkVersion");
}

NvmlResult nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice device, unsigned link, NvmlPci* pci) {
  const NvmlResult error = enter("nvmlDeviceGetNvLinkRemotePciInfo_v2");
  if (error != kNvmlSuccess) return error;
  const Link* found = find(device, link);
  if (found == nullptr) return kNvmlInvalidArgument;
  const std::string& end = found->end;
  const unsigned number = static_cast<unsigned>(std::atoi(end.c_str() + (end[0] == 's')));
  set_address(*pci, (end[0] == 's' ? 0x80 : 16) + number);
  if (end == "x" || end == "c") set_address(*pci, end == "x" ? 0xf0 : 0xf1);
  if (end == "o" || end == "?") std::strcpy(pci->address, "FFFFFFFF:FFFF:FF");
  return kNvmlSuccess;
}

NvmlResult nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice device, unsigned link, NvmlLinkEnd* end) {
  const NvmlResult error = enter("nvmlDeviceGetNvLinkRemoteDeviceType");
  if (error != kNvmlSuccess) return error;
  const Link* found = find(device, link);
  if (found == nullptr) return kNvmlInvalidArgument;
  const char kind = found->end[0];
  *end = kind == 's' || kind == 'o' ? kNvmlEndSwitch : kNvmlEndGpu;
  if (kind == 'c') *end = kNvmlEndCpu;
  if (kind == '?') *end = kNvmlEndUnknown;
  return kNvmlSuccess;
}

NvmlResult nvmlDeviceGetFieldValues(NvmlDevice device, int count, NvmlField* fields) {
  const NvmlResult error = enter("nvmlDeviceGetFieldValues");
  for (int i = 0; error == kNvmlSuccess && i < count; ++i) {
    NvmlField& field = fields[i];
    const Link* found = find(device, field.field == kNvmlSpeedOfOne ? field.scope : 0);
    field.result =
        field.field == state->field && found != nullptr ? kNvmlSuccess : kNvmlNotSupported;
    if (field.result != kNvmlSuccess) continue;
    field.type = kNvmlUnsigned;
    field.value.number = found->megabytes;
  }
  return error;
}

NvmlResult nvmlDeviceGetGpuFabricInfo(NvmlDevice, NvmlFabric* fabric) {
  const NvmlResult error = enter("nvmlDeviceGetGpuFabricInfo");
  if (error != kNvmlSuccess) return error;
  unsigned first = 0, state_of = 0;
  *fabric = {};
  if (std::sscanf(state->fabric.c_str(), "%u:%u:%u", &first, &fabric->clique, &state_of) != 3)
    return kNvmlNotSupported;
  fabric->uuid[0] = static_cast<unsigned char>(first);
  fabric->state = static_cast<unsigned char>(state_of);
  return kNvmlSuccess;
}
#endif

}  // namespace echelon::standin
