// SPDX-License-Identifier: Apache-2.0
// A row of collective calls that ranks make alike because they draw them from the same seed. Every
// result is compared with what it has to be, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "echelon/echelon.h"

namespace echelon::test {

class Calls {
 public:
  Calls();

  // From here on with these ranks: `ids` by rank, each of which gives values of its own.
  void begin(std::uint64_t seed, std::vector<int> ids, int self);

  // The next call. A status other than ECH_OK is that of the communicator, or says that the result
  // was wrong (wrong() says which).
  ech_status next(ech_comm* comm);

  int made() const { return made_; }
  const std::string& wrong() const { return wrong_; }

 private:
  struct Draw {
    int kind, root;
    std::size_t count;
    ech_dtype dtype;
    ech_op op;
  };
  Draw draw();
  template <typename T>
  ech_status call(ech_comm* comm, const Draw& draw);
  template <typename T>
  ech_status pending(ech_comm* comm, const Draw& draw);
  template <typename T>
  ech_status judge(ech_status status, const Draw& draw, std::size_t first, const char* name);
  ech_status copies(ech_comm* comm, const Draw& draw);
  ech_status same_bits(ech_comm* comm, const Draw& draw);
  ech_status part(ech_comm* comm, const Draw& draw);
  ech_status fail(std::string what);
  int element(std::size_t rank, std::size_t i) const;
  template <typename T>
  void fill(std::size_t count);
  template <typename T>
  T expected(ech_op op, std::size_t i) const;

  std::mt19937_64 random_;
  std::vector<int> ids_;
  std::size_t self_ = 0;
  int made_ = 0;
  int salt_ = 0;
  std::vector<char> in_, out_;
  std::string wrong_;
};

}  // namespace echelon::test
