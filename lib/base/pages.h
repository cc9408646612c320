// SPDX-License-Identifier: Apache-2.0
// Memory of whole pages with an owner, zero at first. It takes room only where it is touched, and
// goes back to the system with its owner. Neither holds for what an allocator hands out: that may
// have been touched before, and is kept when it is freed.
#pragma once

#include <cstddef>
#include <memory>

namespace echelon {

class Pages {
 public:
  // Throws std::bad_alloc.
  explicit Pages(std::size_t bytes);

  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return memory_.get_deleter().bytes; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };

  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace echelon
