// SPDX-License-Identifier: Apache-2.0
#include "lib/introduction.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "lib/fabric/loaders.h"

namespace echelon {

namespace {

std::optional<Address> address_from(const std::string& host, std::uint32_t port) {
  if (host.empty() && port == 0) return std::nullopt;
  std::optional<Address> address = parse_address(host);
  if (!address || port == 0 || port > UINT16_MAX)
    throw invalid(
        fmt::format("a rank's introduction: address \"{}\" port {}", printable(host), port));
  address->set_port(static_cast<std::uint16_t>(port));
  return address;
}

// What no link has.
constexpr double kLongestLatency = 60;
constexpr double kHighestSpeed = 1e15;

constexpr std::uint32_t kNewestNccl = 1u << 30;  // a number that no version has

}  // namespace

std::string to_wire(const Introduction& i) {
  return ByteWriter()
      .text(i.host_id)
      .text(i.host_name)
      .text(i.cpus.list())
      .text(i.slurm_address)
      .text(i.slurm_pattern)
      .text(i.machine)
      .text(i.settings)
      .u32(i.pid)
      .text(i.gpu.uuid)
      .text(i.gpu.absence)
      .u32(static_cast<std::uint32_t>(i.gpu.nccl))
      .text(i.gpu.no_nccl)
      .text(i.gpu.pci)
      .u32(i.gpu.shares ? 1 : 0)
      .text(i.standby ? i.standby->host() : "")
      .u32(i.standby ? i.standby->port() : 0)
      .take();
}

Introduction introduction_from_wire(std::string_view bytes) {
  ByteReader reader(bytes, "a rank's introduction");
  Introduction i;
  i.host_id = reader.text();
  i.host_name = printable(reader.text());
  const std::string cpus = reader.text();
  i.slurm_address = reader.text();
  i.slurm_pattern = reader.text();
  i.machine = reader.text();
  i.settings = reader.text();
  i.pid = reader.u32();
  i.gpu.uuid = reader.text();
  i.gpu.absence = printable(reader.text());
  i.gpu.nccl = static_cast<int>(std::min(reader.u32(), kNewestNccl));
  i.gpu.no_nccl = printable(reader.text());
  i.gpu.pci = normal_pci_address(reader.text());
  const std::uint32_t shares = reader.u32();
  const std::string standby_host = reader.text();
  const std::uint32_t standby_port = reader.u32();
  reader.expect_end();
  if (shares > 1) throw invalid(fmt::format("a rank's introduction: shares {}", shares));
  i.gpu.shares = shares == 1;
  i.standby = address_from(standby_host, standby_port);
  const auto set = CpuSet::parse(cpus);
  if (!set) throw invalid(fmt::format("a rank's introduction: cpus \"{}\"", printable(cpus)));
  i.cpus = *set;
  return i;
}

std::string to_wire(const MediaAddresses& addresses) {
  return ByteWriter()
      .text(addresses.network)
      .text(addresses.shared)
      .text(addresses.gpu_network)
      .text(addresses.gpu_group)
      .text(addresses.gpu_joint)
      .text(addresses.gpu_absence)
      .u32(addresses.gpu_staged ? 1 : 0)
      .take();
}

MediaAddresses media_addresses_from_wire(std::string_view bytes) {
  ByteReader reader(bytes, "a rank's addresses");
  MediaAddresses addresses;
  addresses.network = reader.text();
  addresses.shared = reader.text();
  addresses.gpu_network = reader.text();
  addresses.gpu_group = reader.text();
  addresses.gpu_joint = reader.text();
  addresses.gpu_absence = reader.text();
  const std::uint32_t staged = reader.u32();
  reader.expect_end();
  if (staged > 1) throw invalid(fmt::format("a rank's addresses: staged {}, not 0 or 1", staged));
  addresses.gpu_staged = staged == 1;
  return addresses;
}

std::string to_wire(const SharedFiles& files) {
  return ByteWriter()
      .text(files.fabric_path)
      .text(files.tuning_path)
      .text(files.fabric)
      .text(files.tuning)
      .take();
}

SharedFiles shared_files_from_wire(std::string_view bytes) {
  ByteReader reader(bytes, "the files of rank 0");
  SharedFiles files;
  files.fabric_path = printable(reader.text());
  files.tuning_path = printable(reader.text());
  files.fabric = reader.text();
  files.tuning = reader.text();
  reader.expect_end();
  return files;
}

std::string to_wire(const MeasuredLink& link) {
  return ByteWriter().f64(link.latency).f64(link.bytes_per_second).take();
}

MeasuredLink measured_link_from_wire(std::string_view bytes) {
  ByteReader reader(bytes, "a rank's measured link");
  MeasuredLink link;
  link.latency = reader.f64();
  link.bytes_per_second = reader.f64();
  reader.expect_end();
  const bool sane = link.latency >= 0 && link.latency <= kLongestLatency &&
                    link.bytes_per_second > 0 && link.bytes_per_second <= kHighestSpeed;
  if (!sane)  // nor are NaNs
    throw invalid(fmt::format("a rank's measured link: {} s, {} bytes/s", link.latency,
                              link.bytes_per_second));
  return link;
}

}  // namespace echelon
