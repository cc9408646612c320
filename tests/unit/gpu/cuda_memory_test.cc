// SPDX-License-Identifier: Apache-2.0
// The memory of a GPU as the engine uses it, against the CPU's own results.
#include "transports/cuda/cuda_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "lib/base/dtype.h"
#include "lib/reduce/reduce.h"
#include "transports/cuda/pointer.h"

namespace echelon {
namespace {

using Bytes = std::vector<std::byte>;
using Arrival = CudaMemory::Arrival;

constexpr int kLanes = 2;

class CudaMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kernel_image().empty()) GTEST_SKIP() << "this build has no GPU kernels: nvcc was not there";
    ASSERT_NE(cuda_driver(), nullptr) << cuda_absence();
    device_ = std::make_unique<DeviceContext>(*cuda_driver(), 0);
    memory_ = std::make_unique<CudaMemory>(*device_, kLanes, Arrival::kPinned);
  }

  DeviceBytes upload(const Bytes& bytes) {
    DeviceBytes to = allocate_device(*device_, bytes.size());
    memory_->copy(0, to.get(), bytes.data(), bytes.size());
    finish(0);
    return to;
  }

  Bytes download(const std::byte* from, std::size_t bytes) {
    Bytes to(bytes);
    memory_->copy(0, to.data(), from, bytes);
    finish(0);
    return to;
  }

  // As an engine waits.
  void finish(int lane) {
    while (!memory_->done(lane)) {
      if (!memory_->news()->arm()) continue;
      memory_->news()->sleep(std::chrono::seconds(5));
      memory_->news()->disarm();
    }
  }

  std::unique_ptr<DeviceContext> device_;
  std::unique_ptr<CudaMemory> memory_;
};

// Small numbers in every type: what matters here is which kernel runs on what.
Bytes small_numbers(ech_dtype dtype, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count * size_of(dtype));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() % 64);
  return bytes;
}

TEST_F(CudaMemoryTest, ReducesEveryTypeAndOperatorAsTheCpuDoes) {
  for (ech_dtype dtype : kAllTypes)
    for (ech_op op : kAllOps)
      for (std::size_t sources : {1, 2, 5, 70}) {
        constexpr std::size_t kCount = 1001;
        std::vector<DeviceBytes> on_device;
        std::vector<Bytes> on_host;
        std::vector<const std::byte*> device, host;
        for (unsigned s = 0; s < sources; ++s) {
          on_host.push_back(small_numbers(dtype, kCount, s));
          on_device.push_back(upload(on_host.back()));
          device.push_back(on_device.back().get());
        }
        for (const Bytes& bytes : on_host) host.push_back(bytes.data());
        if (sources > 64 && size_of(dtype) == 2) continue;  // rounded once more on the way
        Bytes expected(kCount * size_of(dtype));
        echelon::reduce(dtype, op, host, expected.data(), kCount);
        memory_->reduce(0, {dtype, op, device, on_device[0].get(), kCount});
        finish(0);
        ASSERT_EQ(download(on_device[0].get(), expected.size()), expected)
            << name(dtype) << ' ' << name(op) << ' ' << sources;
      }
}

TEST_F(CudaMemoryTest, DividesAsTheCpuDoes) {
  for (ech_dtype dtype : kAllTypes) {
    Bytes expected = small_numbers(dtype, 777, 1);
    const DeviceBytes data = upload(expected);
    echelon::divide(dtype, expected.data(), 777, 3);
    memory_->divide(1, {dtype, data.get(), 777, 3});
    finish(1);
    EXPECT_EQ(download(data.get(), expected.size()), expected) << name(dtype);
  }
}

TEST_F(CudaMemoryTest, ScalesAsTheCpuDoes) {
  for (ech_dtype dtype : {ECH_FLOAT16, ECH_BFLOAT16, ECH_FLOAT32, ECH_FLOAT64}) {
    const Bytes numbers = small_numbers(dtype, 777, 1);
    const DeviceBytes data = upload(numbers), out = upload(Bytes(numbers.size()));
    Bytes expected(numbers.size());
    echelon::scale(dtype, expected.data(), numbers.data(), 777, 0.3);
    memory_->scale(1, {dtype, out.get(), data.get(), 777, 0.3});
    memory_->scale(1, {dtype, data.get(), data.get(), 777, 0.3});
    finish(1);
    EXPECT_EQ(download(out.get(), expected.size()), expected) << name(dtype);
    EXPECT_EQ(download(data.get(), expected.size()), expected) << name(dtype) << " in place";
  }
}

TEST_F(CudaMemoryTest, ReducesWhatArrivesInPinnedMemory) {
  const Bytes own = small_numbers(ECH_INT32, 1000, 1), other = small_numbers(ECH_INT32, 1000, 2);
  const DeviceBytes data = upload(own);
  std::byte* incoming = memory_->reserve(0, Memory::Use::kIncoming, other.size());
  EXPECT_TRUE(memory_->is_pinned(incoming) && memory_->is_pinned(incoming + other.size() - 1));
  EXPECT_FALSE(memory_->is_pinned(data.get()));
  std::memcpy(incoming, other.data(), other.size());
  const std::byte* sources[] = {data.get(), incoming};
  memory_->reduce(0, {ECH_INT32, ECH_SUM, sources, data.get(), 1000});
  finish(0);
  Bytes expected(own.size());
  echelon::reduce(ECH_INT32, ECH_SUM, own.data(), other.data(), expected.data(), 1000);
  EXPECT_EQ(download(data.get(), own.size()), expected);
}

TEST_F(CudaMemoryTest, KeepsItsScratchUntilMoreIsAskedFor) {
  std::byte* first = memory_->reserve(0, Memory::Use::kWork, 1000);
  EXPECT_EQ(memory_->reserve(0, Memory::Use::kWork, 500), first);
  EXPECT_NE(memory_->reserve(1, Memory::Use::kWork, 500), first);
  std::byte* more = memory_->reserve(0, Memory::Use::kWork, 1 << 20);
  EXPECT_EQ(kind_of(first), MemoryKind::kDevice) << "freeing it would wait for the device";
  memory_->copy(0, more, Bytes(1 << 20).data(), 1 << 20);
  memory_->settle();
  EXPECT_TRUE(memory_->done(0));
}

TEST_F(CudaMemoryTest, NoWorkIsDone) {
  EXPECT_TRUE(memory_->done(0) && memory_->done(1));
  memory_->reduce(0, {ECH_FLOAT32, ECH_SUM, {}, nullptr, 0});
  EXPECT_TRUE(memory_->done(0));
  ASSERT_TRUE(memory_->news()->arm()) << "nothing is under way";
  memory_->news()->disarm();
}

}  // namespace
}  // namespace echelon
