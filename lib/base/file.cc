// SPDX-License-Identifier: Apache-2.0
#include "lib/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>

#include "lib/base/error.h"
#include "lib/base/fd.h"

namespace echelon {

std::string read_file(const std::string& path, std::size_t most) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw system_error(path);
  std::string text;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t n = ::read(file.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error(path);
    if (n == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(n));
    if (text.size() > most)
      throw invalid(fmt::format("{}: more than {} bytes, too long to be meant", path, most));
  }
}

}  // namespace echelon
