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
#include "lib/engine/engine.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/layout.h"
#include "lib/fabric/place.h"
#include "lib/options.h"
#include "lib/plans.h"
#include "lib/statistics.h"

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
  double timeout = 0;  // s; 0: the communicator's
};

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
  std::vector<std::string> rank_names;  // "rank 3 on hostB (pid 12)"
  std::vector<std::string> nics;        // by which this rank reaches other hosts
  EngineParts engine;
};

struct Identity;
struct Membership;

class Communicator final : private Watch, private Attendant, private Planner {
 public:
  explicit Communicator(CommunicatorParts parts);
  ~Communicator() override;

  int rank() const { return rank_; }
  int size() const { return layout_.size; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  int host_index() const { return layout_.host_of_rank[rank_]; }
  int host_count() const { return layout_.host_count(); }

  // Blocks until it is done.
  void run(const Invocation& invocation);

  // nullptr when there is nothing to do. Otherwise give the operation to finish().
  Operation* start(const Invocation& invocation);
  bool test(Operation* operation);

  // Waits, releases the operation, throws its failure.
  void finish(Operation* operation);

  // Splits off the ranks with the same color >= 0, ordered by (key, rank); nullptr for the others.
  std::unique_ptr<Communicator> split(int color, int key);

  // Ends what is pending, here and on the other ranks, and brings together the ranks that are left.
  // Throws as reunite() and create_communicator() do; may be called again then.
  std::unique_ptr<Communicator> shrink();

  // Waits for pending operations and says goodbye. Throws; the object can only be deleted then.
  void close();
  void abort() noexcept;

  std::string fabric_text(ech_format format) const;
  Choice explain(ech_collective collective, std::size_t bytes, int root = 0);
  ech_counters counters() const;
  void statistics(ech_stats& stats);  // struct_size and arrays as the caller gave them

  const std::string& failure() const { return engine_.failure(); }
  const Options& options() const { return options_; }
  const Log& log() const { return log_; }

 private:
  // Watch
  int fd() const override { return control_->fd(); }
  void check() override { control_->check(); }
  std::string describe(int rank) const override { return rank_names_[rank]; }
  std::string waiting(std::chrono::nanoseconds since) override;
  void ask() override;
  bool in_doubt() override { return control_->in_doubt(); }
  void report(const Error& error) noexcept override { control_->fail(error); }
  // Attendant
  Snapshot activity() const override { return engine_.activity().read(); }
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
  void set_plan(Task& task);

  struct Call {
    Task task;
    bool timed = false;
  };
  void look_for_lost_nics(std::chrono::nanoseconds since);
  Deadline deadline() const;
  std::size_t bytes_of(const Invocation& invocation) const;
  bool prepare(const Invocation& invocation);
  Call call_of(const Invocation& invocation);
  static bool is_timed(const Task& task, std::uint64_t sequence);
  Task task_of(const Invocation& invocation, const Signature& signature);
  Invocation barrier(double timeout);
  void meet(Signature::Kind kind, Deadline until);
  void agree(const Signature& signature);
  void fence_if_far_ahead(const Invocation& invocation);
  void count_ahead(const Invocation& invocation);
  std::string name_of_seat(int seat) const;
  std::unique_ptr<Communicator> go_on(Membership survivors) const;
  std::string show_meeting_point(bool first, int leader, Deadline until);
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
  const std::vector<std::string> nics_;
  int local_rank_ = 0, local_size_ = 1;
  Plans plans_;
  NoteBook notes_;
  Findings findings_;  // of the last period
  SlowLinks slow_links_;
  std::uint64_t replans_ = 0;
  std::deque<Exchange> exchanges_;  // that have not been settled, in order
  Engine engine_;
  std::byte barrier_in_{}, barrier_out_{};
  std::size_t calls_ahead_ = 0;             // broadcasts and reduces since all waited for all
  std::size_t bytes_ahead_ = 0;             // that they moved
  std::chrono::nanoseconds complain_at_{};  // of waiting, when the next line is logged
  std::chrono::nanoseconds look_at_{};      // and when the NICs are looked at
  std::atomic<bool> shrinking_ = false;     // has been begun
  bool shrunk_ = false;                     // and has succeeded
};

}  // namespace echelon
