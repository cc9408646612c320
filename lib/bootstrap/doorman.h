// SPDX-License-Identifier: Apache-2.0
// Answers at a rank's standby listener while its caller does something else, perhaps for long: that
// the rank lives. So the others wait for it, as they would in an operation, and do not take it for
// one that is stopped or cut off.
//
// Thread safety: made and ended by one thread at a time.
#pragma once

#include <thread>

#include "lib/base/fd.h"

namespace echelon {

class Standby;

class Doorman {
 public:
  // `standby` must not be used until this is destroyed. Throws when there is no thread to be had.
  explicit Doorman(Standby& standby);
  ~Doorman();
  Doorman(const Doorman&) = delete;

 private:
  void serve() noexcept;
  void serve_until_stopped();

  Standby& standby_;
  Fd stop_;
  std::thread thread_;
};

}  // namespace echelon
