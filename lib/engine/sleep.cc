// SPDX-License-Identifier: Apache-2.0
#include "lib/engine/sleep.h"

#include <poll.h>

#include <array>

namespace echelon {
namespace {

constexpr std::size_t kMostSources = 4;

// Sources that have been armed, until the end of the scope.
class Armed {
 public:
  Armed() = default;
  Armed(const Armed&) = delete;
  ~Armed() {
    for (std::size_t i = 0; i < count_; ++i) sources_[i]->disarm();
  }

  bool add(Waitable* source) {
    if (!source->arm()) return false;
    sources_[count_++] = source;
    return true;
  }
  std::size_t count() const { return count_; }
  Waitable& operator[](std::size_t i) const { return *sources_[i]; }

 private:
  std::array<Waitable*, kMostSources> sources_{};
  std::size_t count_ = 0;
};

}  // namespace

bool sleep_until_news(std::initializer_list<Waitable*> sources, int fd,
                      std::chrono::nanoseconds limit) {
  Armed armed;
  for (Waitable* source : sources)
    if (source != nullptr && !armed.add(source)) return false;
  if (limit.count() <= 0) return false;
  if (armed.count() == 1) {
    armed[0].sleep(limit);
    return true;
  }
  std::array<pollfd, kMostSources + 1> fds{};
  nfds_t n = 0;
  for (std::size_t i = 0; i < armed.count(); ++i) fds[n++] = {armed[i].fd(), POLLIN, 0};
  if (fd >= 0) fds[n++] = {fd, POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(limit);
  poll(fds.data(), n, static_cast<int>(ms.count()));
  return true;
}

}  // namespace echelon
