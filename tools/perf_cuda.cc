// SPDX-License-Identifier: Apache-2.0
#include "tools/perf_cuda.h"

#include <fmt/format.h>

#include "tools/perf/comm.h"
#include "tools/perf_nccl.h"
#include "transports/cuda/driver.h"

namespace echelon::tools {
namespace {

using perf::Failure;

const CudaDriver& require_driver() {
  const CudaDriver* const cuda = cuda_driver();
  if (cuda == nullptr) throw Failure("--device cuda: " + cuda_absence());
  return *cuda;
}

class Gpu final : public perf::Device {
 public:
  explicit Gpu(int local_rank) : cuda_(require_driver()) {
    check(cuda_.init(0), "cuInit");
    int count = 0;
    check(cuda_.device_get_count(&count), "cuDeviceGetCount");
    if (count == 0) throw Failure("--device cuda: the CUDA driver shows no GPU to this process");
    check(cuda_.device_get(&device_, local_rank % count), "cuDeviceGet");
    check(cuda_.device_primary_ctx_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
    const CudaResult result = begin();
    if (result != kCudaSuccess) cuda_.device_primary_ctx_release(device_);
    check(result, "cuStreamCreateWithPriority");
  }

  ~Gpu() override {
    cuda_.stream_destroy(stream_);
    cuda_.ctx_pop_current(&context_);
    cuda_.device_primary_ctx_release(device_);
  }

  std::string identity() const override {
    CudaUuid uuid{};
    check(cuda_.device_get_uuid(&uuid, device_), "cuDeviceGetUuid");
    return {std::begin(uuid.bytes), std::end(uuid.bytes)};
  }

  void* allocate(std::size_t bytes) override {
    CudaPointer memory = 0;
    check(cuda_.mem_alloc(&memory, bytes), "cuMemAlloc");
    return reinterpret_cast<void*>(memory);
  }

  void release(void* memory) noexcept override { cuda_.mem_free(address(memory)); }

  void upload(void* there, std::span<const std::byte> here) override {
    check(cuda_.memcpy_htod_async(address(there), here.data(), here.size(), stream_),
          "cuMemcpyHtoDAsync");
    wait();
  }

  void download(std::span<std::byte> here, const void* there) override {
    check(cuda_.memcpy_dtoh_async(here.data(), address(there), here.size(), stream_),
          "cuMemcpyDtoHAsync");
    wait();
  }

  void* stream() const override { return stream_; }
  void wait() override { check(cuda_.stream_synchronize(stream_), "cuStreamSynchronize"); }

  std::unique_ptr<perf::Peer> nccl(const perf::Comm& comm) override {
    return join_nccl(comm, stream_);
  }

 private:
  static CudaPointer address(const void* memory) { return reinterpret_cast<CudaPointer>(memory); }

  void check(CudaResult result, const char* call) const {
    if (result == kCudaSuccess) return;
    throw Failure(fmt::format("--device cuda: {}", cuda_error(cuda_, result, call).what()));
  }

  // Makes the context current, with a stream in it, or leaves nothing behind.
  CudaResult begin() {
    CudaResult result = cuda_.ctx_push_current(context_);
    if (result != kCudaSuccess) return result;
    result = cuda_.stream_create_with_priority(&stream_, kCudaStreamNonBlocking, 0);
    CudaContext popped = nullptr;
    if (result != kCudaSuccess) cuda_.ctx_pop_current(&popped);
    return result;
  }

  const CudaDriver& cuda_;
  CudaDevice device_ = 0;
  CudaContext context_ = nullptr;
  CudaStream stream_ = nullptr;
};

}  // namespace

std::unique_ptr<perf::Device> open_cuda(int local_rank) {
  return std::make_unique<Gpu>(local_rank);
}

}  // namespace echelon::tools
