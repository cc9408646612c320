// SPDX-License-Identifier: Apache-2.0
#include "lib/base/pages.h"

#include <sys/mman.h>

#include <new>

namespace echelon {

Pages::Pages(std::size_t bytes) : memory_(nullptr, Unmap{bytes}) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_.reset(static_cast<std::byte*>(memory));
}

void Pages::Unmap::operator()(std::byte* memory) const { munmap(memory, bytes); }

}  // namespace echelon
