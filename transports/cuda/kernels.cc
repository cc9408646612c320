// SPDX-License-Identifier: Apache-2.0
#include "transports/cuda/kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/dtype.h"
#include "transports/cuda/kernel_args.h"

namespace echelon {
namespace {

constexpr int kBlocksPerMultiprocessor = 8;  // 2048 threads: as many as one has

// ECH_AVG adds, and the sum is divided at the end.
int index_of(ech_op op) { return op == ECH_AVG ? ECH_SUM : op; }

// Signed sums and products wrap as unsigned ones do.
ech_dtype arithmetic_type(ech_dtype dtype) {
  switch (dtype) {
    case ECH_INT8:
      return ECH_UINT8;
    case ECH_INT32:
      return ECH_UINT32;
    case ECH_INT64:
      return ECH_UINT64;
    default:
      return dtype;
  }
}

}  // namespace

CudaKernels::CudaKernels(const DeviceContext& device) : device_(device) {
  const std::span<const unsigned char> image = kernel_image();
  if (image.empty())
    throw Error(ECH_ERR_UNSUPPORTED,
                "this build has no GPU kernels; build with nvcc on the PATH and -Dcuda=enabled");
  const DeviceScope scope(device_);
  device_.check(device_.cuda().module_load_data(&module_, image.data()), "cuModuleLoadData");
  try {
    load_all();
  } catch (...) {
    device_.cuda().module_unload(module_);
    throw;
  }
}

// Before anything runs: what CUDA loads later may wait for the whole device, and with it for
// kernels of NCCL that wait for other ranks, which may wait for these.
void CudaKernels::load_all() {
  for (int dtype = 0; dtype < kTypes; ++dtype) {
    for (int op = 0; op < kOps; ++op)
      reduction(static_cast<ech_dtype>(dtype), static_cast<ech_op>(op));
    division(static_cast<ech_dtype>(dtype));
    if (dtype >= ECH_FLOAT16) scaling(static_cast<ech_dtype>(dtype));
  }
}

CudaKernels::~CudaKernels() { device_.cuda().module_unload(module_); }

CudaFunction CudaKernels::find(CudaFunction& cached, const std::string& name) {
  if (cached == nullptr)
    device_.check(device_.cuda().module_get_function(&cached, module_, name.c_str()),
                  "cuModuleGetFunction");
  return cached;
}

CudaFunction CudaKernels::reduction(ech_dtype given, ech_op given_op) {
  const int op = index_of(given_op);
  const bool arithmetic = op == ECH_SUM || op == ECH_PROD;
  const ech_dtype dtype = arithmetic ? arithmetic_type(given) : given;
  constexpr const char* kNames[] = {"sum", "prod", "min", "max"};
  return find(reduce_[static_cast<std::size_t>(dtype) * kOps + static_cast<std::size_t>(op)],
              fmt::format("echelon_reduce_{}_{}", name(dtype), kNames[op]));
}

CudaFunction CudaKernels::division(ech_dtype dtype) {
  return find(divide_[static_cast<std::size_t>(dtype)],
              fmt::format("echelon_divide_{}", name(dtype)));
}

CudaFunction CudaKernels::scaling(ech_dtype dtype) {
  return find(scale_[static_cast<std::size_t>(dtype)],
              fmt::format("echelon_scale_{}", name(dtype)));
}

template <typename Args>
void CudaKernels::launch(CudaStream stream, CudaFunction function, Args& args) {
  const std::size_t threads = std::max<std::size_t>(1, args.count / 4);
  const std::size_t wanted = (threads + kThreadsPerBlock - 1) / kThreadsPerBlock;
  const std::size_t most = static_cast<std::size_t>(device_.multiprocessors()) *
                           static_cast<std::size_t>(kBlocksPerMultiprocessor);
  void* parameters[] = {&args};
  device_.check(
      device_.cuda().launch_kernel(function, static_cast<unsigned>(std::min(wanted, most)), 1, 1,
                                   kThreadsPerBlock, 1, 1, 0, stream, parameters, nullptr),
      "cuLaunchKernel");
}

void CudaKernels::reduce(CudaStream stream, const Reduction& work) {
  if (work.sources.size() == 1) return copy(stream, work);
  const CudaFunction function = reduction(work.dtype, work.op);
  ReduceArgs args;
  args.out = work.out;
  args.count = work.count;
  for (std::span<const std::byte* const> left = work.sources; !left.empty();) {
    int n = 0;
    if (left.size() < work.sources.size()) args.sources[n++] = work.out;
    const std::size_t taken = std::min(left.size(), static_cast<std::size_t>(kMostSources - n));
    std::ranges::copy(left.first(taken), args.sources + n);
    args.source_count = n + static_cast<int>(taken);
    launch(stream, function, args);
    left = left.subspan(taken);
  }
}

// One source is the result as it is, NaNs and all.
void CudaKernels::copy(CudaStream stream, const Reduction& work) {
  const CudaPointer from = cuda_pointer(work.sources[0]), to = cuda_pointer(work.out);
  if (from == to) return;
  device_.check(device_.cuda().memcpy_async(to, from, work.count * size_of(work.dtype), stream),
                "cuMemcpyAsync");
}

void CudaKernels::divide(CudaStream stream, const Division& work) {
  DivideArgs args{work.data, work.count, work.divisor};
  launch(stream, division(work.dtype), args);
}

void CudaKernels::scale(CudaStream stream, const Scaling& work) {
  ScaleArgs args{work.to, work.from, work.count, work.factor};
  launch(stream, scaling(work.dtype), args);
}

}  // namespace echelon
