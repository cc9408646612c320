// SPDX-License-Identifier: Apache-2.0
// A communicator: ranks that have found each other, the fabric between them, and the engine that
// runs their collectives.
//
// Thread safety: one thread at a time, except abort(). Arguments are valid (lib/c_api.cc checks).
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/base/log.h"
#include "lib/bootstrap/control.h"
#include "lib/bootstrap/standby.h"
#include "lib/control_watch.h"
#include "lib/device_engine.h"
#include "lib/engine/engine.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/gpu_links.h"
#include "lib/fabric/layout.h"
#include "lib/fabric/place.h"
#include "lib/options.h"
#include "lib/plans.h"
#include "lib/statistics.h"
#include "lib/timeline.h"

namespace echelon {

// A collective in the caller's words.
struct Invocation {
  ech_collective collective = ECH_ALLREDUCE;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ech_dtype dtype = ECH_UINT8;
  ech_op op = ECH_SUM;
  int root = 0;
  double timeout = 0;      // s; 0: the communicator's
  bool on_gpu = false;     // the buffers are in its memory
  bool in_stream = false;  // begins when `stream` has come to it
  void* stream = nullptr;
  std::shared_ptr<const BufferList> list = nullptr;  // of an allreduce of many buffers
  const char* name = nullptr;                        // what the caller calls it; for the timeline
};

// What a communicator has of GPUs.
struct GpuParts {
  std::optional<DeviceParts> device;  // nothing: use.absence says why
  GpuUse use;
};

// What other ranks are told of it.
Signature signature_of(const Invocation& invocation);

// Everything that creation brings together.
struct CommunicatorParts {
  Options options;
  Log log;
  std::unique_ptr<Control> control;
  std::shared_ptr<Standby> standby;  // null for one rank that was never with others
  std::vector<int> seats;            // by rank
  Fabric fabric;
  std::vector<RankPlace> places;
  Layout layout;
  std::vector<TunedPlan> tuned;         // of operations on host memory
  std::vector<std::string> rank_names;  // "rank 3 on hostB (pid 12)"
  std::vector<std::string> nics;        // by which this rank reaches other hosts
  EngineParts engine;
  GpuParts gpu;
};

struct Identity;
struct Membership;
class TimelineFile;

class Communicator final : private Attendant, private Planner {
 public:
  explicit Communicator(CommunicatorParts parts);
  ~Communicator() override;

  int rank() const { return rank_; }
  int size() const { return layout_.size; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int host_index() const { return layout_.host_of_rank[rank_]; }
  int host_count() const { return layout_.host_count(); }

  // Blocks until it is done. On host memory.
  void run(const Invocation& invocation);

  // nullptr when there is nothing to do. Otherwise give the operation to finish().
  Operation* start(const Invocation& invocation);
  bool test(Operation* operation);

  // Waits, releases the operation, throws its failure.
  void finish(Operation* operation);

  // The same on the memory of the communicator's GPU; nullptr when there is nothing to do.
  DeviceEngine::Call start_on_gpu(const Invocation& invocation);
  void run_on_gpu(const Invocation& invocation);
  bool test_on_gpu(const DeviceCall& call);
  void wait_on_gpu(const DeviceCall& call);  // throws its failure
  DeviceEngine& gpu();                       // throws ECH_ERR_UNSUPPORTED when there is none

  // Throws the failure that ends all operations, if there is one. status() makes progress first.
  void check();
  void status();

  // Splits off the ranks with the same color >= 0, ordered by (key, rank); nullptr for the others.
  std::unique_ptr<Communicator> split(int color, int key);

  // Plans operations on host memory by `text` from now on, a recipe or "": the cheapest.
  // Collective.
  void set_algorithm(const std::string& text);

  // Ends what is pending, here and on the other ranks, and brings together the ranks that are left.
  // Throws as reunite() and create_communicator() do; may be called again then.
  std::unique_ptr<Communicator> shrink();

  // Waits for pending operations and says goodbye. Throws; the object can only be deleted then.
  void close();
  void abort() noexcept;

  std::string fabric_text(ech_format format) const;
  Choice explain(ech_collective collective, std::size_t bytes, bool on_gpu);
  ech_counters counters() const;
  void statistics(ech_stats& stats);  // struct_size and arrays as the caller gave them

  // Collective; before any operation. Does nothing unless a timeline is wanted.
  void begin_timeline(Deadline until);

  const std::string& failure() const { return engine_.failure(); }
  const Options& options() const { return options_; }
  const Log& log() const { return log_; }

 private:
  // Calls since all ranks last waited for all, of those in which some could run ahead.
  struct Ahead {
    std::size_t calls = 0;
    std::size_t bytes = 0;
  };

  // Attendant
  Snapshot activity() const override;
  std::string last_seen(int rank) const override;
  void failed() noexcept override;

  // Planner
  bool plan(Task& task, std::uint64_t sequence) override;

  // The end of a period: the ranks' notes, gathered by an operation like any other.
  struct Exchange {
    std::uint64_t sequence = 0;
    std::uint64_t timed = 0;  // operations of the period
    Notes mine;
    std::vector<Notes> all;
    Operation* operation = nullptr;  // null until it has been started
  };
  // periods.cc
  void close_period();
  void settle();
  void conclude(const Exchange& exchange);
  void replan(const std::vector<SlowLink>& slow, std::uint64_t from);
  static void set_plan(Task& task, Plans& plans);

  // communicator_timeline.cc
  std::uint32_t number_of_name(const Invocation& invocation);
  void run_message(int from, int to, std::span<std::byte> data, Deadline until);
  ClockReading compare_clock(int other, Deadline until);
  Clocks compare_clocks(Deadline until);
  void merge_timeline(Deadline until);
  std::string open_timeline(std::optional<TimelineFile>& file,
                            std::span<const RankAbout> about) const;
  void report_timeline(const std::string& path, const std::string& failure,
                       ech_log_level level) const;
  void write_part() noexcept;

  Deadline deadline() const;
  std::size_t bytes_of(const Invocation& invocation) const;
  bool prepare(const Invocation& invocation);
  Task call_of(const Invocation& invocation);
  Task task_of(const Invocation& invocation, const Signature& signature);
  Invocation barrier(const Invocation& of);
  void meet(Signature::Kind kind, Deadline until);
  void agree(const Signature& signature);
  void fence_if_far_ahead(const Invocation& invocation);
  static void count_ahead(const Invocation& invocation, Ahead& ahead);
  std::string name_of_seat(int seat) const;
  std::unique_ptr<Communicator> go_on(Membership survivors) const;
  std::string show_meeting_point(bool first, int leader, Deadline until);
  std::unique_ptr<Communicator> create_part(const Identity& identity, const Options& options,
                                            Deadline until);
  std::unique_ptr<Control> join_part(const Identity& identity, Deadline until);

  const Options options_;
  const Log log_;
  const std::unique_ptr<Control> control_;
  const std::shared_ptr<Standby> standby_;
  const std::vector<int> seats_;
  const int rank_;
  mutable std::mutex fabric_mutex_;  // any thread may ask for it
  Fabric fabric_;                    // but for numbers of links, constant; so is the layout
  const std::vector<RankPlace> places_;
  Layout layout_;
  const std::vector<std::string> rank_names_;
  const NicsInUse nics_;
  int local_rank_ = 0, local_size_ = 1;
  Plans plans_;
  NoteBook notes_;
  Findings findings_;  // of the last period
  SlowLinks slow_links_;
  std::uint64_t replans_ = 0;
  std::deque<Exchange> exchanges_;  // that have not been settled, in order
  ControlWatch watch_;
  const std::unique_ptr<Timeline> timeline_;  // null: none is wanted
  bool timeline_kept_ = false;                // it has been written
  int splits_ = 0;                            // so far
  Engine engine_;
  std::byte barrier_in_{}, barrier_out_{};
  Ahead ahead_, ahead_on_gpu_;
  std::atomic<bool> shrinking_ = false;  // has been begun
  bool shrunk_ = false;                  // and has succeeded
  const std::string gpu_absence_;
  std::optional<Plans> gpu_plans_;
  ControlWatch gpu_watch_;
  std::unique_ptr<DeviceEngine> gpu_;  // numbers its calls as engine_ does
};

}  // namespace echelon
