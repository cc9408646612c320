// SPDX-License-Identifier: Apache-2.0
// A stream: a thread that does what is enqueued, one after the other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace echelon::standin {

using Clock = std::chrono::steady_clock;

// A point in a stream that is reached once.
class Mark {
 public:
  void reach();
  bool reached() const;
  void wait() const;
  Clock::time_point when() const;  // it was reached

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool reached_ = false;
  Clock::time_point when_;
};
using MarkPtr = std::shared_ptr<Mark>;

class Stream {
 public:
  static std::shared_ptr<Stream> start(int device, bool blocking);

  const int device;
  const bool blocking;  // takes turns with the null stream

  // `work` runs after what was enqueued before and after `others` are reached. Reached after it.
  MarkPtr enqueue(std::function<void()> work, std::vector<MarkPtr> others = {});

  MarkPtr last() const;  // of what was enqueued; nullptr at first
  bool idle() const;
  void finish() const;  // waits until it is idle
  void close();         // ends after what was enqueued

  void set_capturing(bool on);
  bool capturing() const;

 private:
  struct Item {
    std::function<void()> work;
    std::vector<MarkPtr> others;
    MarkPtr mark;
  };

  Stream(int its_device, bool is_blocking) : device(its_device), blocking(is_blocking) {}
  void run();
  bool take(Item& item);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  MarkPtr last_;
  bool closed_ = false;
  bool capturing_ = false;
};
using StreamPtr = std::shared_ptr<Stream>;

}  // namespace echelon::standin
