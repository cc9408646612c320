// SPDX-License-Identifier: Apache-2.0
// An allreduce of many buffers, each of which is known in every byte before and after.
#pragma once

#include <memory>
#include <vector>

#include "tests/multi/abi_trial.h"

namespace echelon::test {

using Counts = std::vector<std::size_t>;

class List {
 public:
  // Buffers of these counts, otherwise as `each` says.
  List(ech_comm* comm, const Counts& counts, Case each);
  ech_status run();
  ech_status start(ech_request** request);
  void forget_arrays();  // overwrites and frees what names the buffers
  void check() const;

 private:
  class Buffers : public Trial {
   public:
    using Trial::Trial;
    const void* send() const { return send_; }
    void* recv() const { return recv_; }
  };

  ech_comm* const comm_;
  const Case case_;
  std::vector<std::unique_ptr<Buffers>> buffers_;
  std::vector<const void*> send_;
  std::vector<void*> recv_;
  Counts counts_;
};

// Numbers of a type of floats around 1, other ones on every rank, with all bits in use.
std::vector<std::byte> rounded_numbers(ech_dtype dtype, std::size_t bytes, int rank);

}  // namespace echelon::test
