// SPDX-License-Identifier: Apache-2.0
// The collectives on a GPU's memory: an engine of their own, which a thread of its own drives, so
// that they go on without a call of the caller, and what is done on host memory shares nothing
// with it.
//
// Thread safety: start(), fence(), wait() and drain() by one thread at a time, everything else by
// any.
// Invariants
//  1. Calls begin in the order in which they were started, each when its stream has come to it.
//  2. No stream of the caller ever waits for this engine: in a context in which one did, what the
//     engine calls may wait for that stream (docs/gpu.md, "Why no stream waits").
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lib/engine/engine.h"
#include "transports/cuda/device.h"
#include "transports/cuda/stream_news.h"

namespace echelon {

// One collective, from its start to its end.
class DeviceCall {
 private:
  friend class DeviceEngine;
  Task task_;
  std::uint64_t sequence_ = 0;
  bool fence_ = false;
  OwnedEvent ready_;                // in the caller's stream, before the call; null: there is none
  bool followed_ = false;           // ready_ will end a sleep
  Operation* operation_ = nullptr;  // once it has begun
  ech_status status_ = ECH_OK;      // once it is done
  bool done_ = false;
};

// What it runs on. The engine's parts belong to the device.
struct DeviceParts {
  std::unique_ptr<DeviceContext> device;
  EngineParts engine;
};

class DeviceEngine {
 public:
  using Call = std::shared_ptr<DeviceCall>;
  struct Counters {
    EngineCounters engine;
    echelon::Counters network;
    std::uint64_t shared_bytes = 0;
  };

  // `watch` outlives this. Throws ECH_ERR_NO_MEMORY, ECH_ERR_SYSTEM.
  DeviceEngine(DeviceParts parts, Watch& watch);
  ~DeviceEngine();  // ends what is under way
  DeviceEngine(const DeviceEngine&) = delete;

  const DeviceContext& device() const { return *device_; }
  bool has_messages() const { return has_messages_; }

  // Memory of the device for the task of a barrier: 64 bytes.
  std::byte* barrier_bytes() const { return barrier_bytes_.get(); }

  // Starts the operation with that number. Throws the failure of an earlier one.
  Call start(const Task& task, std::uint64_t sequence);

  // The same after what is in `stream` now. What is put there later does not wait for it. Throws
  // ECH_ERR_INVALID (a stream of another device), ECH_ERR_UNSUPPORTED (one that is captured).
  Call start_in(CudaStream stream, const Task& task, std::uint64_t sequence);

  // An operation that nobody waits for, and that is not counted: those started after it wait.
  void fence(const Task& task, std::uint64_t sequence);

  bool done(const DeviceCall& call) const;

  // Blocks until it is done; throws its failure.
  void wait(const DeviceCall& call);
  // Blocks until then, or for `limit`.
  void wait_for(const DeviceCall& call, std::chrono::nanoseconds limit);

  // Blocks until nothing is under way, or `deadline` has passed, which fails the engine.
  void drain(Clock::time_point deadline);

  // Ends everything with what the watch knows, else with ECH_ERR_ABORTED. Does not wait for it.
  void interrupt() noexcept;
  void end_all();  // the same, and waits

  // Throws the failure, if there is one.
  void check() const;

  Snapshot activity() const { return engine_.activity().read(); }
  Counters counters() const;

 private:
  // What the thread sleeps on besides what the engine does.
  class News final : public Waitable {
   public:
    explicit News(DeviceEngine& owner) : owner_(owner), bell_(*owner.device_) {}
    int fd() const override { return bell_.fd(); }
    bool arm() override;
    void disarm() override { bell_.quiet(); }
    void sleep(std::chrono::nanoseconds limit) override { sleep_on(fd(), limit); }
    StreamNews& bell() { return bell_; }

   private:
    DeviceEngine& owner_;
    StreamNews bell_;
  };

  static EngineParts with(EngineParts parts, Watch& watch, Waitable& also);
  Call submit(Call call);
  void check_stream(CudaStream stream) const;
  void serve() noexcept;
  bool take_calls();
  bool is_ready(DeviceCall& call);
  void start_ready();
  void end_done();
  void end(const Call& call, ech_status status);
  void publish();
  bool has_news();
  Operation* most_urgent() const;
  void sleep();

  const std::unique_ptr<DeviceContext> device_;
  const DeviceBytes barrier_bytes_;
  const OwnedStream ready_stream_;  // waits for the event of the call that is next
  const bool has_messages_;
  News news_;
  Engine engine_;  // the thread's, but for interrupt() and activity()

  // The thread's.
  std::deque<Call> waiting_;  // not begun
  std::vector<Call> running_;
  std::uint64_t ended_ = 0;  // of the engine's operations, when it was last looked
  bool told_ = false;        // that the engine has failed

  std::atomic<bool> called_ = false;  // there is something in calls_, or an order

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;        // on their way to the thread
  std::size_t pending_ = 0;       // calls that are not done
  std::optional<Error> order_;    // to fail
  std::optional<Error> failure_;  // why no call can succeed any more
  bool stopping_ = false;
  Counters counters_;
  std::thread thread_;  // from the first call on
};

}  // namespace echelon
