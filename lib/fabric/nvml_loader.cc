// SPDX-License-Identifier: Apache-2.0
// GPUs and NVLinks as NVML tells them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lib/fabric/loaders.h"
#include "lib/fabric/nvml.h"

namespace echelon {
namespace {

constexpr double kMegabytes = 1e6;             // speeds are in MB/s, one direction
constexpr unsigned kMostMegabytes = 10000000;  // more is absurd
constexpr unsigned kMostGpus = 256;
constexpr const char* kOutside = "outside";  // the address of switches that have none

template <std::size_t kSize>
std::string text_of(char (&bytes)[kSize]) {
  bytes[kSize - 1] = '\0';
  return printable(bytes);
}

// Gigatransfers/s of a lane, by generation.
double gigatransfers(unsigned generation) {
  constexpr double kSpeeds[] = {0, 2.5, 5, 8, 16, 32, 64, 128};
  return generation < std::size(kSpeeds) ? kSpeeds[generation] : 0;
}

// Of one link, one direction, as the white papers of the first GPUs with each version say.
double usual_speed(unsigned version) {
  if (version == kNvmlLink1) return 20e9;
  return version >= kNvmlLink5 ? 50e9 : 25e9;
}

std::string uuid_text(const unsigned char (&bytes)[16]) {
  std::string out;
  for (std::size_t i = 0; i < std::size(bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", bytes[i]);
  }
  return out;
}

class NvmlLoader {
 public:
  NvmlLoader(const NvmlLibrary& nvml, Host& host) : nvml_(nvml), host_(host) {}

  void load();

 private:
  struct Device {
    NvmlDevice handle;
    int gpu;  // index in Host::gpus
  };

  // Whether `result` is a success; else a warning, unless it says that there is nothing to know.
  bool good(NvmlResult result, const std::string& call);
  std::optional<Device> load_gpu(unsigned index);
  int find_gpu(const std::string& address) const;
  int gpu_at(const std::string& address);
  void load_pcie(const Device& device);
  void load_fabric(const Device& device);
  void load_links(const Device& device);
  std::optional<NvLinkEnd> end_of(const Device& device, unsigned link);
  NvLinkEnd end_at(const std::string& address);
  Quantity speed_of(const Device& device, unsigned link);
  Quantity field(const Device& device, unsigned which, unsigned link);
  void add(const NvLink& one);
  const std::string& name(const Device& device) const { return host_.gpus[device.gpu].name; }

  const NvmlLibrary& nvml_;
  Host& host_;
};

bool NvmlLoader::good(NvmlResult result, const std::string& call) {
  if (result != kNvmlSuccess && result != kNvmlNotSupported)
    host_.warnings.push_back(nvml_error(nvml_, result, call.c_str()).what());
  return result == kNvmlSuccess;
}

void NvmlLoader::load() {
  unsigned count = 0;
  if (!good(nvml_.device_get_count(&count), "nvmlDeviceGetCount_v2")) return;
  if (nvml_.device_get_nvlink_state != nullptr) host_.nvlinks.clear();  // NVML knows better
  std::vector<Device> devices;
  for (unsigned i = 0; i < std::min(count, kMostGpus); ++i)
    if (const std::optional<Device> device = load_gpu(i)) devices.push_back(*device);
  for (const Device& device : devices) {
    load_pcie(device);
    load_fabric(device);
    load_links(device);
  }
}

int NvmlLoader::find_gpu(const std::string& address) const {
  const auto at = std::ranges::find(host_.gpus, address, &Gpu::pci);
  return at == host_.gpus.end() ? -1 : static_cast<int>(at - host_.gpus.begin());
}

// The GPU there, a new one if need be.
int NvmlLoader::gpu_at(const std::string& address) {
  const int known = find_gpu(address);
  if (known >= 0) return known;
  Gpu gpu;
  gpu.name = fmt::format("gpu{}", host_.gpus.size());
  gpu.pci = address;
  host_.gpus.push_back(std::move(gpu));
  return static_cast<int>(host_.gpus.size()) - 1;
}

std::optional<NvmlLoader::Device> NvmlLoader::load_gpu(unsigned index) {
  NvmlDevice handle = nullptr;
  NvmlPci pci{};
  const std::string who = fmt::format("GPU {} of NVML: ", index);
  if (!good(nvml_.device_get_handle_by_index(index, &handle),
            who + "nvmlDeviceGetHandleByIndex_v2") ||
      !good(nvml_.device_get_pci_info(handle, &pci), who + "nvmlDeviceGetPciInfo_v3"))
    return {};
  const std::string said = text_of(pci.address), address = normal_pci_address(said);
  if (address.empty()) {
    host_.warnings.push_back(who + "\"" + said + "\" is no PCI address");
    return {};
  }
  const Device device{handle, gpu_at(address)};
  Gpu& gpu = host_.gpus[device.gpu];
  char model[96] = "", uuid[96] = "";
  if (good(nvml_.device_get_name(handle, model, sizeof model), who + "nvmlDeviceGetName"))
    gpu.model = text_of(model);
  if (good(nvml_.device_get_uuid(handle, uuid, sizeof uuid), who + "nvmlDeviceGetUUID"))
    gpu.uuid = text_of(uuid);
  return device;
}

// What the link can do: while a GPU is idle it is slower than that, and so sysfs says.
void NvmlLoader::load_pcie(const Device& device) {
  unsigned generation = 0, lanes = 0;
  if (nvml_.device_get_max_pcie_link_generation == nullptr ||
      nvml_.device_get_max_pcie_link_width == nullptr ||
      !good(nvml_.device_get_max_pcie_link_generation(device.handle, &generation),
            name(device) + ": nvmlDeviceGetMaxPcieLinkGeneration") ||
      !good(nvml_.device_get_max_pcie_link_width(device.handle, &lanes),
            name(device) + ": nvmlDeviceGetMaxPcieLinkWidth"))
    return;
  const double speed =
      pcie_bytes_per_second(gigatransfers(generation), static_cast<int>(std::min(lanes, 64u)));
  const Gpu& gpu = host_.gpus[device.gpu];
  int node = find_pci(host_, gpu.pci);
  if (node < 0) {
    node = static_cast<int>(host_.pci.size());
    host_.pci.push_back({PciNode::Kind::kDevice, gpu.pci, -1, gpu.numa, {}});
  }
  Quantity& known = host_.pci[node].bytes_per_second;
  if (speed > known.value) known = {speed, Source::kDevice};
}

void NvmlLoader::load_fabric(const Device& device) {
  NvmlFabric fabric{};
  if (nvml_.device_get_gpu_fabric_info == nullptr ||
      !good(nvml_.device_get_gpu_fabric_info(device.handle, &fabric),
            name(device) + ": nvmlDeviceGetGpuFabricInfo") ||
      fabric.state != kNvmlComplete ||
      !good(fabric.status, name(device) + ": its entry into the NVLink fabric"))
    return;
  // One that is alone with the GPUs of its host may say so by zeros.
  if (std::ranges::all_of(fabric.uuid, [](unsigned char byte) { return byte == 0; })) return;
  host_.gpus[device.gpu].fabric_uuid = uuid_text(fabric.uuid);
  host_.gpus[device.gpu].clique = static_cast<int>(std::min(fabric.clique, 1u << 20));
}

void NvmlLoader::load_links(const Device& device) {
  if (nvml_.device_get_nvlink_state == nullptr ||
      nvml_.device_get_nvlink_remote_pci_info == nullptr)
    return;
  for (unsigned link = 0; link < kNvmlMostLinks; ++link) {
    NvmlSwitch active = kNvmlOff;
    const NvmlResult result = nvml_.device_get_nvlink_state(device.handle, link, &active);
    if (result == kNvmlInvalidArgument) return;  // it has no more
    if (!good(result, fmt::format("{}: nvmlDeviceGetNvLinkState {}", name(device), link)) ||
        active != kNvmlOn)
      continue;
    const std::optional<NvLinkEnd> to = end_of(device, link);
    const NvLinkEnd self{NvLinkEnd::Kind::kGpu, device.gpu};
    // A link of two GPUs is told of by both.
    if (!to || (to->kind == NvLinkEnd::Kind::kGpu && to->index <= device.gpu)) continue;
    add({self, *to, 1, speed_of(device, link)});
  }
}

// Nothing for a device that is not of this host, or that nobody shows.
std::optional<NvLinkEnd> NvmlLoader::end_of(const Device& device, unsigned link) {
  const std::string who = fmt::format("{}, NVLink {}: ", name(device), link);
  NvmlPci pci{};
  if (!good(nvml_.device_get_nvlink_remote_pci_info(device.handle, link, &pci),
            who + "nvmlDeviceGetNvLinkRemotePciInfo_v2"))
    return {};
  const std::string address = normal_pci_address(text_of(pci.address));
  if (const int gpu = find_gpu(address); gpu >= 0 && !address.empty())
    return NvLinkEnd{NvLinkEnd::Kind::kGpu, gpu};
  NvmlLinkEnd type = kNvmlEndUnknown;
  if (nvml_.device_get_nvlink_remote_device_type != nullptr &&
      !good(nvml_.device_get_nvlink_remote_device_type(device.handle, link, &type),
            who + "nvmlDeviceGetNvLinkRemoteDeviceType"))
    type = kNvmlEndUnknown;
  if (type == kNvmlEndGpu) {
    const std::string warning = name(device) + ": it has NVLinks to GPUs that are not shown here";
    if (std::ranges::find(host_.warnings, warning) == host_.warnings.end())
      host_.warnings.push_back(warning);
    return {};
  }
  if (type != kNvmlEndCpu) return end_at(address);
  const int package = package_of_numa(host_, host_.gpus[device.gpu].numa);
  if (package < 0) return {};
  return NvLinkEnd{NvLinkEnd::Kind::kPackage, package};
}

// The switch there. Those that are not in the host have no address; they are one to us.
NvLinkEnd NvmlLoader::end_at(const std::string& address) {
  const auto at = std::ranges::find(host_.nvswitches, address, &NvSwitch::pci);
  const int index = static_cast<int>(at - host_.nvswitches.begin());
  if (at == host_.nvswitches.end())
    host_.nvswitches.push_back(
        {address.empty() ? kOutside : fmt::format("nvswitch{}", index), address});
  return {NvLinkEnd::Kind::kSwitch, index};
}

Quantity NvmlLoader::speed_of(const Device& device, unsigned link) {
  for (const unsigned which : {kNvmlSpeedOfOne, kNvmlSpeedOfAll})
    if (const Quantity speed = field(device, which, link); speed.known()) return speed;
  unsigned version = 0;
  if (nvml_.device_get_nvlink_version == nullptr ||
      !good(nvml_.device_get_nvlink_version(device.handle, link, &version),
            fmt::format("{}: nvmlDeviceGetNvLinkVersion {}", name(device), link)) ||
      version == 0)
    return {default_link(LinkKind::kNvlink).bytes_per_second, Source::kDefault};
  return {usual_speed(version), Source::kDefault};
}

// Unknown where this version of NVML does not know the field.
Quantity NvmlLoader::field(const Device& device, unsigned which, unsigned link) {
  NvmlField field;
  field.field = which;
  field.scope = link;
  if (nvml_.device_get_field_values == nullptr ||
      nvml_.device_get_field_values(device.handle, 1, &field) != kNvmlSuccess ||
      field.result != kNvmlSuccess || field.type != kNvmlUnsigned || field.value.number == 0 ||
      field.value.number > kMostMegabytes)
    return {};
  return {field.value.number * kMegabytes, Source::kDevice};
}

// All links of two devices are one entry.
void NvmlLoader::add(const NvLink& one) {
  const auto same = [&](const NvLink& l) { return l.a == one.a && l.b == one.b; };
  const auto at = std::ranges::find_if(host_.nvlinks, same);
  if (at == host_.nvlinks.end()) {
    host_.nvlinks.push_back(one);
    return;
  }
  at->count += one.count;
  at->bytes_per_second.value += one.bytes_per_second.value;
  at->bytes_per_second.source = std::max(at->bytes_per_second.source, one.bytes_per_second.source);
}

}  // namespace

void load_nvml(Host& host) {
  if (const NvmlLibrary* nvml = nvml_library()) load_nvml(host, *nvml);
}

void load_nvml(Host& host, const NvmlLibrary& nvml) {
  try {
    const NvmlSession session(nvml);
    NvmlLoader(nvml, host).load();
  } catch (const Error& e) {
    if (!host.gpus.empty())
      host.warnings.push_back(fmt::format("NVLinks are unknown: {}", e.what()));
  }
}

}  // namespace echelon
