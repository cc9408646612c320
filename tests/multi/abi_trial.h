// SPDX-License-Identifier: Apache-2.0
// One collective with buffers of its own whose every byte is known before and after.
//
// Inputs are small integers, chosen per operation so that all results and all partial results are
// exact in every type; they repeat with a prime period.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "echelon/echelon.h"

namespace echelon::test {

inline constexpr ech_dtype kTypes[] = {ECH_INT8,    ECH_UINT8,  ECH_INT32,   ECH_UINT32,
                                       ECH_INT64,   ECH_UINT64, ECH_FLOAT16, ECH_BFLOAT16,
                                       ECH_FLOAT32, ECH_FLOAT64};
inline constexpr ech_op kOps[] = {ECH_SUM, ECH_PROD, ECH_MIN, ECH_MAX, ECH_AVG};
inline constexpr ech_collective kWithData[] = {ECH_ALLREDUCE, ECH_REDUCE_SCATTER, ECH_ALLGATHER,
                                               ECH_BROADCAST, ECH_REDUCE};

std::size_t width(ech_dtype dtype);  // bytes of an element

struct Case {
  ech_collective collective = ECH_ALLREDUCE;
  std::size_t count = 1;
  ech_dtype dtype = ECH_FLOAT32;
  ech_op op = ECH_SUM;
  int root = 0;
  bool in_place = false;
};

std::string describe(const Case& c);

// Every collective with every type and operation, in place and not, roots in turn, many elements
// and few. `number` counts them from 1.
void for_types_and_operations(int ranks, const std::function<void(const Case&, int number)>& body);

// Memory between two guards. Moves, but is not copied.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  std::byte* data() { return memory_.data() + kGuard; }
  const std::byte* data() const { return memory_.data() + kGuard; }
  std::size_t size() const { return memory_.size() - 2 * kGuard; }
  std::vector<std::byte>& with_guards() { return memory_; }
  bool guards_intact() const;

 private:
  static constexpr std::size_t kGuard = 192;
  std::vector<std::byte> memory_;
};

class Trial {
 public:
  Trial(ech_comm* comm, const Case& c);
  ech_status run();                                                         // the blocking form
  ech_status start(ech_request** request, const ech_call* call = nullptr);  // the nonblocking form
  void check() const;  // expects all bytes to be as they must be

 protected:
  ech_comm* comm_;
  const Case case_;
  const int rank_, size_;
  Buffer in_, out_;  // in place: only out_ is used
  const std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;

 private:
  using Pattern = std::vector<std::byte>;  // one period of elements

  std::int64_t input(int rank, std::size_t index) const;
  std::int64_t fair_share(int rank, std::size_t index) const;
  std::int64_t result(std::size_t index) const;
  Pattern inputs(int rank) const;
  Pattern results() const;
  void fill(std::byte* data, std::size_t elements, const Pattern& pattern) const;
  // Of element `first` and on of the pattern.
  bool same(const std::byte* data, std::size_t first, std::size_t elements,
            const Pattern& pattern) const;
  bool result_is_right() const;

  std::size_t send_elements_ = 0;
};

}  // namespace echelon::test
