// SPDX-License-Identifier: Apache-2.0
// The GPU kernels against the reference of the CPU's (float64 where float32 is rounded), for all
// types and operators, on numbers of all kinds. What is launched here is what the engine launches.
#include "transports/cuda/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/base/dtype.h"
#include "tests/unit/reduce/reference.h"

namespace echelon {
namespace {

using Bytes = std::vector<std::byte>;

class KernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kernel_image().empty()) GTEST_SKIP() << "this build has no GPU kernels: nvcc was not there";
    ASSERT_NE(cuda_driver(), nullptr) << cuda_absence();
    device_ = std::make_unique<DeviceContext>(*cuda_driver(), 0);
    scope_ = std::make_unique<DeviceScope>(*device_);
    kernels_ = std::make_unique<CudaKernels>(*device_);
    stream_ = make_stream(*device_);
  }

  DeviceBytes upload(const Bytes& bytes) {
    DeviceBytes there = allocate_device(*device_, bytes.size());
    device_->check(device_->cuda().memcpy_htod_async(cuda_pointer(there.get()), bytes.data(),
                                                     bytes.size(), stream_.get()),
                   "cuMemcpyHtoDAsync");
    wait();
    return there;
  }

  Bytes download(const std::byte* there, std::size_t bytes) {
    Bytes here(bytes);
    device_->check(
        device_->cuda().memcpy_dtoh_async(here.data(), cuda_pointer(there), bytes, stream_.get()),
        "cuMemcpyDtoHAsync");
    wait();
    return here;
  }

  void wait() {
    device_->check(device_->cuda().stream_synchronize(stream_.get()), "cuStreamSynchronize");
  }

  void expect_reduced(ech_dtype dtype, ech_op op, std::size_t sources);

  static constexpr std::size_t kCount = 2'053;  // more than one block, and not whole
  std::unique_ptr<DeviceContext> device_;
  std::unique_ptr<DeviceScope> scope_;
  std::unique_ptr<CudaKernels> kernels_;
  OwnedStream stream_;
};

void KernelsTest::expect_reduced(ech_dtype dtype, ech_op op, std::size_t sources) {
  const std::size_t width = size_of(dtype);
  std::vector<Bytes> here;
  std::vector<DeviceBytes> owners;
  std::vector<const std::byte*> host, there;
  for (std::size_t s = 0; s < sources; ++s) {
    here.push_back(special_values(dtype, kCount, static_cast<unsigned>(s) + 1));
    owners.push_back(upload(here.back()));
    there.push_back(owners.back().get());
  }
  for (const Bytes& bytes : here) host.push_back(bytes.data());
  const DeviceBytes out = upload(Bytes(kCount * width));
  kernels_->reduce(stream_.get(), {dtype, op, there, out.get(), kCount});
  const Bytes result = download(out.get(), kCount * width);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < result.size(); at += width) {
    std::byte expected[8];
    reference_element(dtype, op, host, at, expected);
    wrong += std::memcmp(expected, &result[at], width) != 0;
  }
  EXPECT_EQ(wrong, 0u) << name(dtype) << ' ' << name(op) << " of " << sources << " sources";
}

TEST_F(KernelsTest, ReduceEveryTypeAndOperatorToTheBit) {
  for (ech_dtype dtype : kAllTypes)
    for (ech_op op : kAllOps)
      for (std::size_t sources : {1, 2, 3, 8, 64}) expect_reduced(dtype, op, sources);
}

TEST_F(KernelsTest, DivideEveryTypeToTheBit) {
  for (ech_dtype dtype : kAllTypes)
    for (int divisor : {1, 2, 3, 7, 1000}) {
      const std::size_t width = size_of(dtype);
      Bytes expected = special_values(dtype, kCount);
      const DeviceBytes data = upload(expected);
      kernels_->divide(stream_.get(), {dtype, data.get(), kCount, divisor});
      for (std::size_t at = 0; at < expected.size(); at += width)
        reference_quotient(dtype, &expected[at], divisor);
      EXPECT_EQ(download(data.get(), expected.size()), expected) << name(dtype) << " / " << divisor;
    }
}

TEST_F(KernelsTest, ScaleEveryFloatToTheBit) {
  for (ech_dtype dtype : {ECH_FLOAT16, ECH_BFLOAT16, ECH_FLOAT32, ECH_FLOAT64})
    for (double factor : {1.0, -0.5, 1.0 / 3, 1e-30, 1e300}) {
      const std::size_t width = size_of(dtype);
      Bytes expected = special_values(dtype, kCount);
      const DeviceBytes data = upload(expected), out = upload(Bytes(expected.size()));
      kernels_->scale(stream_.get(), {dtype, out.get(), data.get(), kCount, factor});
      for (std::size_t at = 0; at < expected.size(); at += width)
        reference_product(dtype, &expected[at], factor);
      EXPECT_EQ(download(out.get(), expected.size()), expected) << name(dtype) << " x " << factor;
    }
}

// Off the alignment that whole words need, and not a multiple of them.
TEST_F(KernelsTest, TakeAnyAddressAndCount) {
  const Bytes input = special_values(ECH_UINT8, 1000);
  const DeviceBytes a = upload(input), b = upload(input), out = upload(Bytes(1000));
  for (std::size_t offset : {0, 1, 3})
    for (std::size_t count : {1, 2, 5, 31, 257}) {
      const std::byte* sources[] = {a.get() + offset, b.get() + 2 * offset};
      kernels_->reduce(stream_.get(), {ECH_UINT8, ECH_MAX, sources, out.get() + offset, count});
      const Bytes result = download(out.get() + offset, count);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(result[i], std::max(input[offset + i], input[2 * offset + i])) << offset;
    }
}

}  // namespace
}  // namespace echelon
