// SPDX-License-Identifier: Apache-2.0
// Prints how fast the GPU's copies and our kernels are, one JSON object per line: bytes that move
// to and from the GPU's memory per second, in GB/s, for buffers of argv[1] bytes. Copies within the
// device are what the kernels are compared with; copies from and to pinned host memory are what
// staging is.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <vector>

#include "lib/base/dtype.h"
#include "transports/cuda/kernels.h"

namespace echelon {
namespace {

constexpr int kRepetitions = 9, kBatch = 5;

class Speed {
 public:
  explicit Speed(std::size_t bytes)
      : bytes_(bytes), device_(require_driver(), 0), scope_(device_), kernels_(device_) {
    for (int i = 0; i < 9; ++i) {
      buffers_.push_back(allocate_device(device_, bytes));
      check(cuda().memset_d8_async(cuda_pointer(buffers_[i].get()), 0x3f, bytes, stream_.get()),
            "cuMemsetD8Async");
    }
    check(cuda().event_create(&begin_, 0), "cuEventCreate");
    check(cuda().event_create(&end_, 0), "cuEventCreate");
  }
  ~Speed() {
    cuda().event_destroy(begin_);
    cuda().event_destroy(end_);
  }
  Speed(const Speed&) = delete;

  void copies() {
    const PinnedBytes host = allocate_pinned(device_, bytes_);
    const CudaPointer out = at(0), in = at(1);
    report("copy", 2, [&] { check(cuda().memcpy_async(out, in, bytes_, stream_.get()), "copy"); });
    report("to_host", 1, [&] {
      check(cuda().memcpy_dtoh_async(host.get(), in, bytes_, stream_.get()), "to_host");
    });
    report("from_host", 1, [&] {
      check(cuda().memcpy_htod_async(out, host.get(), bytes_, stream_.get()), "from_host");
    });
  }

  // As the engine adds: the result over the first source.
  void reductions(ech_dtype dtype, ech_op op, int sources) {
    std::vector<const std::byte*> from;
    for (int s = 0; s < sources; ++s) from.push_back(buffers_[static_cast<std::size_t>(s)].get());
    const Reduction work{dtype, op, from, buffers_[0].get(), bytes_ / size_of(dtype)};
    report(fmt::format("{}_{}_{}", name(dtype), name(op), sources), sources + 1,
           [&] { kernels_.reduce(stream_.get(), work); });
  }

 private:
  static const CudaDriver& require_driver() {
    if (cuda_driver() == nullptr) throw Error(ECH_ERR_UNSUPPORTED, cuda_absence());
    return *cuda_driver();
  }
  const CudaDriver& cuda() const { return device_.cuda(); }
  void check(CudaResult result, const char* call) const { device_.check(result, call); }
  CudaPointer at(std::size_t buffer) const { return cuda_pointer(buffers_[buffer].get()); }

  // The median of some batches, by the GPU's clock. `streams` buffers are read or written.
  void report(const std::string& what, int streams, const std::function<void()>& work) {
    std::vector<float> times;
    for (int i = 0; i <= kRepetitions; ++i) {
      check(cuda().event_record(begin_, stream_.get()), "cuEventRecord");
      for (int k = 0; k < kBatch; ++k) work();
      check(cuda().event_record(end_, stream_.get()), "cuEventRecord");
      check(cuda().event_synchronize(end_), "cuEventSynchronize");
      float milliseconds = 0;
      check(cuda().event_elapsed_time(&milliseconds, begin_, end_), "cuEventElapsedTime");
      if (i > 0) times.push_back(milliseconds / kBatch);  // the first one warms up
    }
    std::ranges::sort(times);
    const double seconds = times[times.size() / 2] * 1e-3;
    fmt::print("{{\"what\": \"{}\", \"bytes\": {}, \"gbs\": {:.2f}}}\n", what, bytes_,
               seconds > 0 ? streams * static_cast<double>(bytes_) / seconds * 1e-9 : 0);
  }

  const std::size_t bytes_;
  DeviceContext device_;
  const DeviceScope scope_;
  CudaKernels kernels_;
  const OwnedStream stream_ = make_stream(device_);
  std::vector<DeviceBytes> buffers_;
  CudaEvent begin_ = nullptr, end_ = nullptr;
};

int measure(std::size_t bytes) {
  Speed speed(bytes);
  speed.copies();
  for (ech_dtype dtype : kAllTypes)
    for (int sources : {2, 4, 8}) speed.reductions(dtype, ECH_SUM, sources);
  for (ech_op op : {ECH_PROD, ECH_MIN, ECH_MAX}) speed.reductions(ECH_FLOAT32, op, 2);
  return 0;
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  try {
    return echelon::measure(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64 << 20);
  } catch (const echelon::Error& e) {
    fmt::print(stderr, "kernel_speed: {}\n", e.what());
    return 1;
  }
}
