// SPDX-License-Identifier: Apache-2.0
#include "tests/multi/abi_list.h"

#include <cstdint>
#include <cstring>
#include <random>

namespace echelon::test {

List::List(ech_comm* comm, const Counts& counts, Case each)
    : comm_(comm), case_(each), counts_(counts) {
  for (std::size_t count : counts) {
    each.count = count;
    buffers_.push_back(std::make_unique<Buffers>(comm, each));
    send_.push_back(count > 0 ? buffers_.back()->send() : nullptr);
    recv_.push_back(count > 0 ? buffers_.back()->recv() : nullptr);
  }
}

ech_status List::run() {
  return ech_allreduce_many(send_.data(), recv_.data(), counts_.data(), counts_.size(), case_.dtype,
                            case_.op, 1, 1, comm_);
}

ech_status List::start(ech_request** request) {
  return ech_iallreduce_many(send_.data(), recv_.data(), counts_.data(), counts_.size(),
                             case_.dtype, case_.op, 1, 1, comm_, nullptr, request);
}

void List::forget_arrays() {
  send_.assign(send_.size(), nullptr);
  recv_.assign(recv_.size(), nullptr);
  counts_.assign(counts_.size(), SIZE_MAX);
}

void List::check() const {
  for (const auto& buffers : buffers_) buffers->check();
}

std::vector<std::byte> rounded_numbers(ech_dtype dtype, std::size_t bytes, int rank) {
  // The exponent of 1, and the sign.
  const std::uint64_t exponent = dtype == ECH_FLOAT16    ? 0x3c00
                                 : dtype == ECH_BFLOAT16 ? 0x3f80
                                 : dtype == ECH_FLOAT32  ? 0x3f800000
                                                         : 0x3ff0000000000000;
  const std::uint64_t sign = std::uint64_t{1} << (8 * width(dtype) - 1);
  const std::uint64_t fraction = (exponent & -exponent) - 1;  // below the lowest bit of it
  std::mt19937_64 random(static_cast<unsigned>(rank) + 1);
  std::vector<std::byte> data(bytes);
  for (std::size_t at = 0; at < bytes; at += width(dtype)) {
    const std::uint64_t number = exponent | (random() & (sign | fraction));
    std::memcpy(&data[at], &number, width(dtype));
  }
  return data;
}

}  // namespace echelon::test
