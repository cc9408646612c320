// SPDX-License-Identifier: Apache-2.0
// What the loaders share.
#include "lib/fabric/loaders.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/join.h"
#include "lib/fabric/pattern.h"

namespace echelon {
namespace {

void forget_unknown_speed(Host& host, const Nic& nic) {
  std::erase_if(host.warnings, [&](const std::string& warning) {
    return warning.starts_with(speed_unknown(nic.name) + ",");
  });
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 256;
  std::string out(text.substr(0, kLongest));
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return out;
}

std::string normal_pci_address(std::string_view text) {
  // From the right: function, device, bus and, if present, domain.
  constexpr std::array<std::string_view, 3> kSeparators = {".", ":", ":"};
  constexpr std::array<unsigned, 4> kLimits = {8, 32, 256, 1u << 31};
  std::array<unsigned, 4> parts{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t cut = i < 3 ? text.rfind(kSeparators[i]) : std::string_view::npos;
    const std::string_view part = cut == std::string_view::npos ? text : text.substr(cut + 1);
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), parts[i], 16);
    if (error != std::errc() || end != part.data() + part.size() || parts[i] >= kLimits[i])
      return "";
    if (cut == std::string_view::npos) {
      if (i < 2) return "";
      break;
    }
    text = text.substr(0, cut);
  }
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", parts[3], parts[2], parts[1], parts[0]);
}

double pcie_bytes_per_second(double gigatransfers, int lanes) {
  if (!(gigatransfers >= 1 && gigatransfers <= 1024) || lanes < 1 || lanes > 64) return 0;
  // 8b/10b up to 5 GT/s, 128b/130b after.
  const double efficiency = gigatransfers < 8 ? 0.8 : 128.0 / 130.0;
  return gigatransfers * 1e9 / 8 * efficiency * lanes;
}

void drop_nics_without_a_name(Host& host) {
  std::erase_if(host.nics, [&](const Nic& nic) {
    if (!nic.name.empty() && nic.name.find_first_of(kOfPatterns) == std::string::npos) return false;
    forget_unknown_speed(host, nic);
    host.warnings.push_back(
        fmt::format("a nic is called \"{}\": not used, as no fabric file could name it; expected a "
                    "name of printable ASCII without {}",
                    nic.name, kOfPatterns));
    return true;
  });
}

void warn_of_unknown_speeds(Host& host) {
  std::vector<std::string_view> names;
  for (const Nic& nic : host.nics)
    if (!nic.bytes_per_second.known()) names.push_back(nic.name);
  if (!names.empty())
    host.warnings.push_back(
        fmt::format("the file does not say the speed of nic {}", joined(names, ", ")));
}

std::string speed_unknown(std::string_view nic) {
  return fmt::format("nic {}: speed unknown", nic);
}

void forget_unknown_speeds(Host& host) {
  for (const Nic& nic : host.nics) {
    if (nic.bytes_per_second.known()) forget_unknown_speed(host, nic);
  }
}

Host load_topology_xml(const std::string& path) {
  const std::string xml = read_file(path);
  const bool is_hwloc = xml.find("<topology") != std::string::npos;
  return is_hwloc ? parse_hwloc_xml(xml, path) : parse_nccl_xml(xml, path);
}

}  // namespace echelon
