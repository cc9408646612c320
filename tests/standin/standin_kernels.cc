// SPDX-License-Identifier: Apache-2.0
// The kernels of transports/cuda/kernels.cu for the stand-in, computed by lib/reduce: a library
// that the stand-in loads (STANDIN_CUDA_KERNELS). They show that the right ones are launched with
// the right arguments, not that kernels.cu is right.
#include <fmt/format.h>

#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/reduce/reduce.h"
#include "tests/standin/standin_cuda.h"
#include "transports/cuda/kernel_args.h"

namespace echelon::standin {
namespace {

constexpr std::size_t kReduceBytes = sizeof(ReduceArgs), kDivideBytes = sizeof(DivideArgs),
                      kScaleBytes = sizeof(ScaleArgs);

// An address out of bounds would end a real kernel, and with it the context.
template <typename Byte>
Byte* reach(Byte* pointer, std::size_t bytes) {
  void* const found = standin_host_address(pointer, bytes);
  if (found == nullptr) std::abort();
  return static_cast<Byte*>(found);
}

template <ech_dtype kType, ech_op kOp>
void run_reduce(const Launch& launch) {
  const auto& args = *static_cast<const ReduceArgs*>(launch.parameters[0]);
  const std::size_t bytes = args.count * size_of(kType);
  std::vector<const std::byte*> sources;
  for (int s = 0; s < args.source_count; ++s) sources.push_back(reach(args.sources[s], bytes));
  echelon::reduce(kType, kOp, sources, reach(args.out, bytes), args.count);
}

template <ech_dtype kType>
void run_divide(const Launch& launch) {
  const auto& args = *static_cast<const DivideArgs*>(launch.parameters[0]);
  echelon::divide(kType, reach(args.data, args.count * size_of(kType)), args.count, args.divisor);
}

template <ech_dtype kType>
void run_scale(const Launch& launch) {
  const auto& args = *static_cast<const ScaleArgs*>(launch.parameters[0]);
  const std::size_t bytes = args.count * size_of(kType);
  echelon::scale(kType, reach(args.out, bytes), reach(args.in, bytes), args.count, args.factor);
}

void add(std::string name, void (*run)(const Launch&), const std::size_t& bytes) {
  static std::deque<std::string> names;
  static std::deque<Kernel> kernels;
  names.push_back(std::move(name));
  kernels.push_back({names.back().c_str(), run, &bytes, 1});
  standin_register_kernel(&kernels.back());
}

template <ech_dtype kType>
void add_type() {
  const auto add_op = [](ech_op op, void (*run)(const Launch&)) {
    add(fmt::format("echelon_reduce_{}_{}", name(kType), name(op)), run, kReduceBytes);
  };
  add_op(ECH_SUM, run_reduce<kType, ECH_SUM>);
  add_op(ECH_PROD, run_reduce<kType, ECH_PROD>);
  add_op(ECH_MIN, run_reduce<kType, ECH_MIN>);
  add_op(ECH_MAX, run_reduce<kType, ECH_MAX>);
  add(fmt::format("echelon_divide_{}", name(kType)), run_divide<kType>, kDivideBytes);
  if constexpr (kType >= ECH_FLOAT16)
    add(fmt::format("echelon_scale_{}", name(kType)), run_scale<kType>, kScaleBytes);
}

// When the library is loaded.
[[maybe_unused]] const bool kRegistered = [] {
  add_type<ECH_INT8>();
  add_type<ECH_UINT8>();
  add_type<ECH_INT32>();
  add_type<ECH_UINT32>();
  add_type<ECH_INT64>();
  add_type<ECH_UINT64>();
  add_type<ECH_FLOAT16>();
  add_type<ECH_BFLOAT16>();
  add_type<ECH_FLOAT32>();
  add_type<ECH_FLOAT64>();
  return true;
}();

}  // namespace
}  // namespace echelon::standin
