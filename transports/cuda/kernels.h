// SPDX-License-Identifier: Apache-2.0
// The GPU kernels of this build, loaded into a context.
//
// Thread safety: one thread at a time.
#pragma once

#include <array>
#include <span>

#include "transports/cuda/device.h"
#include "transports/memory.h"

namespace echelon {

// The kernels as nvcc left them; empty in a build without nvcc.
std::span<const unsigned char> kernel_image();

class CudaKernels {
 public:
  // Throws ECH_ERR_UNSUPPORTED when this build has no kernels or none for this device.
  explicit CudaKernels(const DeviceContext& device);
  ~CudaKernels();
  CudaKernels(const CudaKernels&) = delete;

  // Put the work into `stream`, whose context must be current. Pointers are those of this device,
  // or of pinned host memory. More sources than one launch takes are reduced in several passes,
  // with rounding in between.
  void reduce(CudaStream stream, const Reduction& work);
  void divide(CudaStream stream, const Division& work);
  void scale(CudaStream stream, const Scaling& work);

 private:
  void copy(CudaStream stream, const Reduction& work);
  static constexpr int kTypes = 10, kOps = 4;
  template <typename Args>
  void launch(CudaStream stream, CudaFunction function, Args& args);
  void load_all();
  CudaFunction reduction(ech_dtype dtype, ech_op op);
  CudaFunction division(ech_dtype dtype);
  CudaFunction scaling(ech_dtype dtype);
  CudaFunction find(CudaFunction& cached, const std::string& name);

  const DeviceContext& device_;
  CudaModule module_ = nullptr;
  std::array<CudaFunction, kTypes * kOps> reduce_{};
  std::array<CudaFunction, kTypes> divide_{}, scale_{};
};

}  // namespace echelon
