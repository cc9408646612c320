// SPDX-License-Identifier: Apache-2.0
#include "tests/standin/standin_cuda_stream.h"

#include <thread>
#include <utility>

#include "lib/base/thread.h"

namespace echelon::standin {

void Mark::reach() {
  const std::lock_guard lock(mutex_);
  reached_ = true;
  when_ = Clock::now();
  changed_.notify_all();
}

bool Mark::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

void Mark::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_; });
}

Clock::time_point Mark::when() const {
  const std::lock_guard lock(mutex_);
  return when_;
}

// The thread is detached: cuStreamDestroy returns before the stream's work is done, and work that
// waits for a dead rank never is.
StreamPtr Stream::start(int device, bool blocking) {
  StreamPtr stream(new Stream(device, blocking));
  std::thread([stream] {
    block_signals();
    stream->run();
  }).detach();
  return stream;
}

MarkPtr Stream::enqueue(std::function<void()> work, std::vector<MarkPtr> others) {
  auto mark = std::make_shared<Mark>();
  const std::lock_guard lock(mutex_);
  items_.push_back({std::move(work), std::move(others), mark});
  last_ = mark;
  changed_.notify_one();
  return mark;
}

MarkPtr Stream::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

bool Stream::idle() const {
  const MarkPtr mark = last();
  return mark == nullptr || mark->reached();
}

void Stream::finish() const {
  if (const MarkPtr mark = last()) mark->wait();
}

void Stream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_one();
}

void Stream::set_capturing(bool on) {
  const std::lock_guard lock(mutex_);
  capturing_ = on;
}

bool Stream::capturing() const {
  const std::lock_guard lock(mutex_);
  return capturing_;
}

bool Stream::take(Item& item) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !items_.empty(); });
  if (items_.empty()) return false;
  item = std::move(items_.front());
  items_.pop_front();
  return true;
}

void Stream::run() {
  for (Item item; take(item); item = Item()) {
    for (const MarkPtr& other : item.others) other->wait();
    item.work();
    item.work = nullptr;  // what it holds may be freed by those who wait for the mark
    item.mark->reach();
  }
}

}  // namespace echelon::standin
