// SPDX-License-Identifier: Apache-2.0
#include "lib/timeline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/dtype.h"
#include "lib/base/error.h"
#include "lib/base/join.h"
#include "lib/engine/view.h"

namespace echelon {
namespace {

constexpr Nanoseconds kShortestWait = 1000;  // in the queue, to be shown
constexpr std::size_t kMostPeers = 16;       // that are named

// Rows of a rank, from TracedEngine::first_row: Perfetto shows them in the order of their numbers.
constexpr int kOperationRows = 0, kQueueRow = 20, kTierRows = 30, kRowsOfTier = 10;

double microseconds_of(Nanoseconds time) { return static_cast<double>(time) * 1e-3; }

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Intervals that would overlap go to different rows.
class Rows {
 public:
  explicit Rows(std::string label, int first) : label_(std::move(label)), first_(first) {}

  // For intervals in the order of their beginnings. A row too many is shared.
  int place(Nanoseconds began, Nanoseconds ended) {
    auto free = std::ranges::find_if(ends_, [&](Nanoseconds end) { return end <= began; });
    if (free == ends_.end() && ends_.size() < kRowsOfTier)
      free = ends_.insert(ends_.end(), ended);
    else if (free == ends_.end())
      free = std::ranges::min_element(ends_);
    *free = std::max(*free, ended);
    return first_ + static_cast<int>(free - ends_.begin());
  }
  std::string name(std::size_t row) const {
    return row == 0 ? label_ : fmt::format("{} ({})", label_, row + 1);
  }
  std::size_t count() const { return ends_.size(); }
  int first() const { return first_; }

 private:
  std::string label_;
  int first_;
  std::vector<Nanoseconds> ends_;
};

// What of a phase's bytes and ranks this rank sees.
struct Traffic {
  std::uint64_t sent = 0, received = 0, shared = 0;
  std::set<int> peers;
};

Traffic traffic_of(const PhaseRecord& record) {
  const Program& program = *record.program;
  Traffic traffic;
  View view;
  view.block_units = program.units / program.blocks;
  view.elements = record.elements;
  view.element_size = record.element_size;
  const auto add = [&](const std::vector<Hop>& hops, std::uint64_t& bytes) {
    for (const Hop& hop : hops) {
      bytes += view.bytes(hop.slice);
      traffic.peers.insert(hop.peer);
    }
  };
  for (const Step& step : program.steps) {
    if (step.phase != record.phase) continue;
    add(step.sends, traffic.sent);
    add(step.receives, traffic.received);
    add(step.incoming, traffic.received);
    for (const Call& call : step.calls)
      for (const Part& part : call.parts) traffic.shared += view.bytes(part.slice);
  }
  return traffic;
}

std::string peers_text(const std::set<int>& peers) {
  const auto end = std::next(peers.begin(), std::min(kMostPeers, peers.size()));
  return fmt::format("{}{}", joined(std::vector<int>(peers.begin(), end), " "),
                     peers.size() > kMostPeers ? " ..." : "");
}

std::vector<PhaseRecord> copy_of(std::span<const PhaseRecord> records) {
  return {records.begin(), records.end()};
}

// One engine's events.
class EngineEvents {
 public:
  EngineEvents(const TracedRank& rank, const TracedEngine& engine, const EventSink& sink)
      : rank_(rank),
        engine_(engine),
        sink_(sink),
        operations_(engine.recorder->operations()),
        phases_(copy_of(engine.recorder->phases())),
        operation_rows_(engine.prefix + "operations", engine.first_row + kOperationRows) {}

  void write() {
    for (const OperationRecord& o : operations_) add_direct(o);
    std::ranges::stable_sort(phases_, {}, &PhaseRecord::began);
    std::vector<const OperationRecord*> order;
    for (const OperationRecord& o : operations_) order.push_back(&o);
    std::ranges::stable_sort(order, {}, &OperationRecord::began);
    for (const OperationRecord* o : order)
      if (o->began != 0) write_operation(*o);
    std::ranges::sort(order, {}, &OperationRecord::sequence);
    write_queue(order);
    for (const PhaseRecord& p : phases_) write_phase(p);
    write_rows(operation_rows_);
    for (const auto& [label, rows] : tiers_) write_rows(rows);
  }

 private:
  // One call of the group is all of its one phase.
  void add_direct(const OperationRecord& o) {
    names_[o.sequence] = o.name;
    if (!o.direct) return;
    phases_.push_back({o.began, o.ended, o.program, o.sequence, o.elements, 0,
                       o.program->steps.front().phase, o.element_size});
  }

  // By what the caller calls it, else by its own.
  std::string name_of(const OperationRecord& o) const {
    const bool named = o.name > 0 && o.name < rank_.names.size();
    return named ? rank_.names[o.name] : o.signature.label(o.sequence);
  }

  struct Shown {
    std::string name;
    std::string_view category;
    Nanoseconds began, ended;
    int row;
  };

  void write_interval(const Shown& e, const std::string& arguments) const {
    sink_(fmt::format(
        R"({{"name":{},"cat":"{}","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},"args":{{{}}}}})",
        json_string(e.name), e.category, rank_.clock.microseconds(e.began),
        microseconds_of(e.ended - e.began), rank_.rank, e.row, arguments));
  }

  void write_operation(const OperationRecord& o) {
    std::string arguments =
        fmt::format(R"("call":"{}","sequence":{})", o.signature.label(o.sequence), o.sequence);
    const auto add = [&]<typename... T>(fmt::format_string<T...> format, T&&... values) {
      arguments += "," + fmt::format(format, std::forward<T>(values)...);
    };
    const Signature& s = o.signature;
    if (s.collective != ECH_BARRIER)
      add(R"("bytes":{},"count":{},"type":"{}","op":"{}")", o.bytes, s.count,
          name(static_cast<ech_dtype>(s.dtype)), name(static_cast<ech_op>(s.op)));
    if (s.kind == Signature::kMany) add(R"("buffers":{})", s.buffers);
    if (s.collective == ECH_BROADCAST || s.collective == ECH_REDUCE) add(R"("root":{})", s.root);
    if (o.program != nullptr) add(R"("plan":{})", json_string(o.program->plan));
    add(R"("segments":{},"waited_us":{:.3f},"status":"{}")", o.segments,
        microseconds_of(o.began - o.called), name(o.status));
    write_interval(
        {name_of(o), "operation", o.began, o.ended, operation_rows_.place(o.began, o.ended)},
        arguments);
  }

  // Operations wait behind each other: each is shown from when it is the first that waits.
  void write_queue(const std::vector<const OperationRecord*>& order) {
    Nanoseconds free = 0;  // the one before has left the queue
    bool any = false;
    for (const OperationRecord* o : order) {
      const Nanoseconds left = o->began != 0 ? o->began : o->ended;
      const Nanoseconds first = std::max(free, o->called);
      free = std::max(free, left);
      if (left - first < kShortestWait) continue;
      any = true;
      write_interval({name_of(*o), "queue", first, left, engine_.first_row + kQueueRow},
                     fmt::format(R"("sequence":{},"waited_us":{:.3f},"status":"{}")", o->sequence,
                                 microseconds_of(left - o->called), name(o->status)));
    }
    if (any) write_row(engine_.first_row + kQueueRow, engine_.prefix + "queue");
  }

  // Those of a tier; what is only copied has rows of its own.
  Rows& rows_of(const std::string& label) {
    const auto known = tiers_.find(label);
    if (known != tiers_.end()) return known->second;
    const int first = engine_.first_row + kTierRows + kRowsOfTier * static_cast<int>(tiers_.size());
    return tiers_.try_emplace(label, engine_.prefix + label, first).first->second;
  }

  static std::string kind_of(const PhaseRecord& p) {
    if (p.phase == PhaseRecord::kPack) return "pack";
    return p.phase == PhaseRecord::kDeliver ? "deliver" : "copy";
  }

  void write_phase(const PhaseRecord& p) {
    const auto& phases = p.program->phases;
    const bool on_tier = p.phase >= 0 && static_cast<std::size_t>(p.phase) < phases.size();
    const std::string label = on_tier ? phases[p.phase].where : "copies";
    const auto named = names_.find(p.sequence);
    std::string arguments = fmt::format(R"("sequence":{},"segment":{},"bytes":{})", p.sequence,
                                        p.segment, p.elements * p.element_size * p.program->blocks);
    if (named != names_.end() && named->second > 0 && named->second < rank_.names.size())
      arguments += fmt::format(R"(,"operation":{})", json_string(rank_.names[named->second]));
    if (on_tier) arguments += traffic_text(p);
    write_interval({on_tier ? phases[p.phase].name : kind_of(p), "phase", p.began, p.ended,
                    rows_of(label).place(p.began, p.ended)},
                   arguments);
  }

  static std::string traffic_text(const PhaseRecord& p) {
    const Traffic traffic = traffic_of(p);
    return fmt::format(R"(,"tier":{},"sent":{},"received":{},"shared":{},"peers":"{}")",
                       p.program->phases[p.phase].tier, traffic.sent, traffic.received,
                       traffic.shared, peers_text(traffic.peers));
  }

  void write_row(int row, const std::string& label) const {
    sink_(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})",
                      rank_.rank, row, json_string(label)));
    sink_(fmt::format(
        R"({{"name":"thread_sort_index","ph":"M","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
        rank_.rank, row, row));
  }

  void write_rows(const Rows& rows) const {
    for (std::size_t row = 0; row < rows.count(); ++row)
      write_row(rows.first() + static_cast<int>(row), rows.name(row));
  }

  const TracedRank& rank_;
  const TracedEngine& engine_;
  const EventSink& sink_;
  const std::span<const OperationRecord> operations_;
  std::vector<PhaseRecord> phases_;
  Rows operation_rows_;
  std::map<std::string, Rows> tiers_;             // by label
  std::map<std::uint64_t, std::uint32_t> names_;  // by sequence
};

}  // namespace

double CommonClock::microseconds(Nanoseconds local) const {
  double behind = static_cast<double>(first_.behind);
  if (last_.at > first_.at)
    behind += static_cast<double>(last_.behind - first_.behind) *
              static_cast<double>(local - first_.at) / static_cast<double>(last_.at - first_.at);
  return (static_cast<double>(local - zero_) + behind) * 1e-3;
}

void write_events(const TracedRank& rank, const EventSink& sink) {
  for (const TracedEngine& engine : rank.engines) EngineEvents(rank, engine, sink).write();
}

std::string trace_head(std::span<const RankAbout> ranks, int size) {
  std::vector<std::string> clocks, dropped, processes;
  for (const RankAbout& r : ranks) {
    clocks.push_back(fmt::format(R"({{"rank":{},"behind_us":{:.3f},"error_us":{:.3f}}})", r.rank,
                                 microseconds_of(r.clock.behind), microseconds_of(r.clock.error)));
    if (r.dropped > 0)
      dropped.push_back(fmt::format(R"({{"rank":{},"records":{}}})", r.rank, r.dropped));
    processes.push_back(fmt::format(
        R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":{1}}}}},
{{"name":"process_sort_index","ph":"M","pid":{0},"args":{{"sort_index":{0}}}}})",
        r.rank, json_string(r.name)));
  }
  return fmt::format(
      R"({{"displayTimeUnit":"ms",
"otherData":{{"library":"echelon {}.{}.{}","size":{},"ranks":{},"clocks":[{}],"dropped":[{}]}},
"traceEvents":[
{})",
      ECH_VERSION_MAJOR, ECH_VERSION_MINOR, ECH_VERSION_PATCH, size, ranks.size(),
      joined(clocks, ","), joined(dropped, ","), joined(processes, ",\n"));
}

}  // namespace echelon
