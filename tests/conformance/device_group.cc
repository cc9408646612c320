// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/device_group.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

namespace echelon::test {
namespace {

// A call's copy on the device.
struct Mirror {
  GroupWork host;
  std::vector<GroupPart> parts;
  DeviceBytes input, output;
  bool busy = false;
};

class DeviceGroup final : public GroupEngine {
 public:
  DeviceGroup(std::shared_ptr<DeviceContext> device, std::unique_ptr<GroupEngine> group, int self)
      : device_(std::move(device)),
        group_(std::move(group)),
        self_(self),
        stream_(make_stream(*device_)),
        mirrors_(static_cast<std::size_t>(group_->lanes())) {}

  int lanes() const override { return group_->lanes(); }
  void start(int lane, const GroupWork& work) override;
  bool done(int lane) const override { return group_->done(lane) && !is_owed(lane); }
  bool progress() override;
  void abort() override { group_->abort(); }
  ech_status failed() const override { return group_->failed(); }
  std::span<std::byte> board(int member) override { return group_->board(member); }
  std::uint64_t bytes() const override { return group_->bytes(); }
  int fd() const override { return group_->fd(); }
  bool arm() override { return group_->arm(); }
  void disarm() override { group_->disarm(); }
  void sleep(std::chrono::nanoseconds limit) override { group_->sleep(limit); }

 private:
  // Whether the output is still to be copied back.
  bool is_owed(int lane) const {
    return mirrors_[static_cast<std::size_t>(lane)].busy && group_->failed() == ECH_OK;
  }
  bool gets(const Mirror& mirror, const GroupPart& part) const {
    return mirror.host.action != GroupAction::kReduceScatter || part.owner == self_;
  }
  bool gives(const Mirror& mirror, const GroupPart& part) const {
    return mirror.host.action != GroupAction::kAllgather || part.owner == self_;
  }
  void upload(const Mirror& mirror) const;
  void download(Mirror& mirror) const;
  void copy(void* to, const void* from, std::size_t bytes) const;

  const std::shared_ptr<DeviceContext> device_;
  const std::unique_ptr<GroupEngine> group_;
  const int self_;
  const OwnedStream stream_;
  std::vector<Mirror> mirrors_;
};

void DeviceGroup::copy(void* to, const void* from, std::size_t bytes) const {
  const DeviceScope scope(*device_);
  device_->check(
      device_->cuda().memcpy_async(cuda_pointer(to), cuda_pointer(from), bytes, stream_.get()),
      "cuMemcpyAsync");
  device_->check(device_->cuda().stream_synchronize(stream_.get()), "cuStreamSynchronize");
}

void DeviceGroup::upload(const Mirror& mirror) const {
  for (const GroupPart& p : mirror.parts) {
    if (p.bytes == 0 || !gives(mirror, p)) continue;
    copy(mirror.input.get() + p.input_offset, mirror.host.input + p.input_offset, p.bytes);
  }
}

void DeviceGroup::download(Mirror& mirror) const {
  const std::byte* output = mirror.output ? mirror.output.get() : mirror.input.get();
  for (const GroupPart& p : mirror.parts)
    if (p.bytes > 0 && gets(mirror, p))
      copy(mirror.host.output + p.output_offset, output + p.output_offset, p.bytes);
  mirror.busy = false;
}

void DeviceGroup::start(int lane, const GroupWork& work) {
  Mirror& mirror = mirrors_[static_cast<std::size_t>(lane)];
  mirror.host = work;
  mirror.parts.assign(work.parts.begin(), work.parts.end());
  std::size_t in = 1, out = 1;
  for (const GroupPart& p : mirror.parts) {
    in = std::max(in, p.input_offset + p.bytes);
    out = std::max(out, p.output_offset + p.bytes);
  }
  const bool in_place = work.input == work.output;
  mirror.input = allocate_device(*device_, in_place ? std::max(in, out) : in);
  mirror.output = in_place ? DeviceBytes() : allocate_device(*device_, out);
  upload(mirror);
  GroupWork device = work;
  device.parts = mirror.parts;
  device.input = mirror.input.get();
  device.output = in_place ? mirror.input.get() : mirror.output.get();
  mirror.busy = true;
  group_->start(lane, device);
}

bool DeviceGroup::progress() {
  bool moved = group_->progress();
  for (int lane = 0; lane < lanes(); ++lane) {
    Mirror& mirror = mirrors_[static_cast<std::size_t>(lane)];
    if (!mirror.busy || !group_->done(lane) || group_->failed() != ECH_OK) continue;
    download(mirror);
    moved = true;
  }
  return moved;
}

class DeviceMedium final : public GroupMedium {
 public:
  explicit DeviceMedium(const MakeDeviceGroup& make) {
    if (cuda_driver() == nullptr) throw std::runtime_error(cuda_absence());
    device_ = std::make_shared<DeviceContext>(*cuda_driver(), 0);
    medium_ = make(*device_);
  }
  std::string address() const override { return medium_->address(); }
  std::unique_ptr<GroupEngine> connect(int self, std::span<const std::string> members) override {
    return std::make_unique<DeviceGroup>(device_, medium_->connect(self, members), self);
  }

 private:
  std::shared_ptr<DeviceContext> device_;
  std::unique_ptr<GroupMedium> medium_;
};

}  // namespace

std::unique_ptr<GroupMedium> behind_host_memory(const MakeDeviceGroup& make) {
  return std::make_unique<DeviceMedium>(make);
}

}  // namespace echelon::test
