// SPDX-License-Identifier: Apache-2.0
// How to sleep until a medium has news. The protocol:
//   progress() returns nothing new  ->  arm()  ->  true: sleep on fd() or in sleep()  ->  disarm()
//                                              ->  false: something arrived meanwhile, progress()
#pragma once

#include <chrono>

namespace echelon {

class Waitable {
 public:
  virtual ~Waitable() = default;

  // Readable when there may be news while armed. Constant; owned by the object.
  virtual int fd() const = 0;

  // Asks to be woken. False when there is news already, or when nothing would wake for what is
  // awaited; then nothing is armed.
  virtual bool arm() = 0;

  // Ends a successful arm(), woken or not.
  virtual void disarm() = 0;

  // Sleeps while armed until news or `limit`; for a caller that waits for nothing else.
  // Spurious returns are allowed.
  virtual void sleep(std::chrono::nanoseconds limit) = 0;
};

// poll() on one descriptor: what sleep() usually is.
void sleep_on(int fd, std::chrono::nanoseconds limit);

}  // namespace echelon
