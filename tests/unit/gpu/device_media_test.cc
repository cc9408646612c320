// SPDX-License-Identifier: Apache-2.0
// Messages between GPUs: straight from and to their memory over a network that reaches it, through
// the host's memory over one that does not. The networks are stand-ins, and so are the GPUs.
#include "lib/device_media.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <list>

#include "algorithms/hierarchical.h"
#include "tests/multi/engine_tasks.h"
#include "tests/support/ranks.h"
#include "transports/cuda/pointer.h"
#include "transports/loopback/loopback_transport.h"

namespace echelon {
namespace {

using test::Value;

// How many messages with something in them lay where.
struct Seen {
  int host = 0, device = 0;
  void message(std::span<const std::byte> data) {
    if (!data.empty()) ++(kind_of(data.data()) == MemoryKind::kDevice ? device : host);
  }
};

// Carries what lies in a GPU's memory by copying it.
class GpuNetwork final : public Transport {
 public:
  GpuNetwork(std::unique_ptr<Transport> host, Seen& seen) : host_(std::move(host)), seen_(seen) {}

  void send(int peer, Tag tag, std::span<const std::byte> data, Completion& completion) override {
    seen_.message(data);
    Bounce& bounce = bounces_.emplace_back();
    bounce.bytes.resize(data.size());
    copy(bounce.bytes.data(), data.data(), data.size());
    host_->send(peer, tag, bounce.bytes, completion);
  }
  void receive(int peer, Tag tag, std::span<std::byte> data, Completion& completion) override {
    seen_.message(data);
    Bounce& bounce = bounces_.emplace_back();
    bounce.bytes.resize(data.size());
    bounce.to = data.data();
    bounce.outer = &completion;
    host_->receive(peer, tag, bounce.bytes, bounce.inner);
  }
  bool progress() override {
    bool any = host_->progress();
    for (Bounce& bounce : bounces_) {
      if (bounce.outer == nullptr || !bounce.inner.done) continue;
      copy(bounce.to, bounce.bytes.data(), bounce.bytes.size());
      *std::exchange(bounce.outer, nullptr) = bounce.inner;
      any = true;
    }
    return any;
  }
  void abort() override { host_->abort(); }
  Counters counters() const override { return host_->counters(); }
  int fd() const override { return host_->fd(); }
  bool arm() override { return host_->arm(); }
  void disarm() override { host_->disarm(); }
  void sleep(std::chrono::nanoseconds limit) override { host_->sleep(limit); }

 private:
  struct Bounce {  // kept: this is a test
    std::vector<std::byte> bytes;
    std::byte* to = nullptr;
    Completion inner;
    Completion* outer = nullptr;
  };

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    const CudaDriver& cuda = device_.cuda();
    const DeviceScope scope(device_);
    if (kind_of(from) == MemoryKind::kDevice)
      device_.check(cuda.memcpy_dtoh_async(to, cuda_pointer(from), bytes, stream_.get()),
                    "to host");
    else if (kind_of(to) == MemoryKind::kDevice)
      device_.check(cuda.memcpy_htod_async(cuda_pointer(to), from, bytes, stream_.get()), "to GPU");
    else
      std::memcpy(to, from, bytes);
    device_.check(cuda.stream_synchronize(stream_.get()), "cuStreamSynchronize");
  }

  std::unique_ptr<Transport> host_;
  Seen& seen_;
  DeviceContext device_{*cuda_driver(), 0};
  OwnedStream stream_ = make_stream(device_);
  std::list<Bounce> bounces_;
};

class Network final : public Medium {
 public:
  Network(bool reaches_gpus, Seen& seen) : reaches_gpus_(reaches_gpus), seen_(seen) {}

  std::string address() const override { return host_->address(); }
  bool reaches_gpus() const override { return reaches_gpus_; }
  std::unique_ptr<Transport> connect(int self, std::span<const std::string> all) override {
    return std::make_unique<GpuNetwork>(host_->connect(self, all), seen_);
  }

 private:
  std::unique_ptr<Medium> host_ = open_loopback();
  const bool reaches_gpus_;
  Seen& seen_;
};

// What the threads share to connect.
struct Meeting {
  std::vector<MediaAddresses> addresses = std::vector<MediaAddresses>(2);
  std::barrier<> both{2};
};

DeviceParts connect(int self, bool reaches_gpus, Seen& seen, Meeting& meeting) {
  DeviceMedia media({{self}}, self, Options{},
                    [&] { return std::make_unique<Network>(reaches_gpus, seen); });
  media.tell(meeting.addresses[self]);
  EXPECT_EQ(meeting.addresses[self].gpu_absence, "");
  meeting.both.arrive_and_wait();
  DeviceParts parts = media.connect(meeting.addresses);
  meeting.both.arrive_and_wait();
  return parts;
}

// In place, on the GPU.
void sum_up(Engine& engine, int self, const DeviceContext& device, std::vector<Value>& values) {
  const DeviceBytes data = allocate_device(device, values.size() * sizeof(Value));
  const CudaPointer on_gpu = cuda_pointer(data.get());
  const OwnedStream stream = make_stream(device);
  const DeviceScope scope(device);
  const std::size_t bytes = values.size() * sizeof(Value);
  device.cuda().memcpy_htod_async(on_gpu, values.data(), bytes, stream.get());
  device.cuda().stream_synchronize(stream.get());
  const Goal goal{ECH_ALLREDUCE, self, 2, 0};
  Composition ring;
  ring.collective = ECH_ALLREDUCE;
  ring.size = 2;
  ring.tiers.push_back({{Group::range(2)}, Algorithm::kRing});
  const Program program = compile(compose(ring, self), goal, true);
  Task task =
      test::task_on({reinterpret_cast<Value*>(data.get()), values.size()}, goal, {&program, 500});
  Operation* operation = engine.start(task);
  engine.wait(*operation);
  EXPECT_EQ(operation->status(), ECH_OK) << engine.failure();
  engine.release(operation);
  device.cuda().memcpy_dtoh_async(values.data(), on_gpu, bytes, stream.get());
  device.cuda().stream_synchronize(stream.get());
}

class Networks : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ReachGpus, Networks, testing::Bool(),
                         [](const auto& info) { return info.param ? "Yes" : "No"; });

TEST_P(Networks, CarryWhatTheyCan) {
  if (kernel_image().empty()) GTEST_SKIP() << "this build has no GPU kernels: nvcc was not there";
  ASSERT_NE(cuda_driver(), nullptr) << cuda_absence();
  const bool reaches_gpus = GetParam();
  Meeting meeting;
  test::run_threads(2, [&](int self) {
    const DeviceContext device(*cuda_driver(), 0);
    const DeviceScope scope(device);
    Seen seen;
    DeviceParts parts = connect(self, reaches_gpus, seen, meeting);
    {
      Engine engine(std::move(parts.engine));
      std::vector<Value> values(3001, self + 1);
      sum_up(engine, self, device, values);
      EXPECT_EQ(values, std::vector<Value>(3001, 3));
      meeting.both.arrive_and_wait();
    }
    EXPECT_EQ(seen.device > 0, reaches_gpus);
    EXPECT_EQ(seen.host > 0, !reaches_gpus);
  });
}

}  // namespace
}  // namespace echelon
