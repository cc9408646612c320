// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/doorman.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <vector>

#include "lib/base/error.h"
#include "lib/base/thread.h"
#include "lib/bootstrap/door.h"
#include "lib/bootstrap/text.h"

namespace echelon {

Doorman::Doorman(Standby& standby)
    : standby_(standby), stop_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!stop_) throw system_error("cannot create a descriptor to wait on");
  thread_ = std::thread([this] { serve(); });
}

Doorman::~Doorman() {
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void Doorman::serve() noexcept {
  block_signals();
  try {
    serve_until_stopped();
  } catch (const std::exception&) {
    // Out of memory or descriptors: the rank is silent from now on.
  }
}

void Doorman::serve_until_stopped() {
  Door door(standby_, [](Guest&, const Hello&) { return false; });
  for (;;) {
    std::vector<pollfd> sockets = {{stop_.get(), POLLIN, 0}};
    door.watch(sockets);
    ::poll(sockets.data(), sockets.size(), milliseconds_until(door.when()));
    if (sockets[0].revents != 0) return;
    door.serve(&sockets[1]);
  }
}

}  // namespace echelon
