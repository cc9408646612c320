// SPDX-License-Identifier: Apache-2.0
// The ranks' timelines as one: how far their clocks are apart, and how their parts reach rank 0,
// which writes the file. After a failure nobody can be asked: each rank writes its own part.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/communicator.h"
#include "lib/timeline_file.h"

namespace echelon {
namespace {

constexpr int kTrips = 16;  // between a host and rank 0; the quickest counts

// Of all ranks in one exchange, and of one rank.
constexpr std::size_t kMostGathered = 16 << 20, kLargestBlock = 256 << 10, kSmallestBlock = 4 << 10;
static_assert(kLongestEvent + 8 <= kSmallestBlock);

Nanoseconds clock_now() { return nanoseconds(Clock::now()); }

// One message of 8 bytes.
Program message(int from, int to, const Goal& goal) {
  Schedule schedule(1, goal.rank);
  schedule.copy(0, from, to, schedule.whole());
  return compile(schedule, goal, false);
}

// What comes after the last event, or only after those of this block.
enum class BlockEnd : char { kMore = '+', kLast = '.' };

// Brings all ranks' events to rank 0, a block of each at a time. A block begins with a BlockEnd and
// is filled up with blanks, which mean nothing in JSON.
class Gathering {
 public:
  // Gives `mine` to all ranks, and `all` of them.
  using Exchange = std::function<void(std::span<const char> mine, std::span<char> all)>;

  // `file` is null on the other ranks.
  Gathering(int size, TimelineFile* file, Exchange exchange)
      : block_(std::clamp(kMostGathered / size, kSmallestBlock, kLargestBlock)),
        mine_(block_),
        all_(block_ * size),
        file_(file),
        exchange_(std::move(exchange)) {}

  void add(std::string_view event) {
    if (event.size() > kLongestEvent) return;
    if (filled_ + kBetweenEvents.size() + event.size() > block_) pass(BlockEnd::kMore);
    for (const std::string_view text : {kBetweenEvents, event})
      filled_ += text.copy(mine_.data() + filled_, text.size());
  }

  // Ends when all ranks have nothing left.
  void finish() {
    while (!pass(BlockEnd::kLast)) {
    }
    if (file_ == nullptr) return;
    try {
      file_->write(kTraceEnd);
      file_->commit();
    } catch (const Error& e) {
      failure_ = e.what();
    }
  }

  const std::string& failure() const { return failure_; }  // why there is no file, or ""

 private:
  // True when that was the last block of every rank.
  bool pass(BlockEnd end) {
    mine_[0] = static_cast<char>(end);
    std::fill(mine_.begin() + static_cast<std::ptrdiff_t>(filled_), mine_.end(), ' ');
    filled_ = 1;
    exchange_(mine_, all_);
    bool last = true;
    for (std::size_t at = 0; at < all_.size(); at += block_) {
      last = last && all_[at] == static_cast<char>(BlockEnd::kLast);
      keep({all_.data() + at + 1, block_ - 1});
    }
    return last;
  }

  // The others go on when the disk is full.
  void keep(std::string_view text) {
    if (file_ == nullptr) return;
    text = text.substr(0, text.find_last_not_of(' ') + 1);
    try {
      file_->write(text);
    } catch (const Error& e) {
      failure_ = e.what();
      file_ = nullptr;
    }
  }

  const std::size_t block_;
  std::vector<char> mine_, all_;
  std::size_t filled_ = 1;
  TimelineFile* file_;
  const Exchange exchange_;
  std::string failure_;
};

}  // namespace

std::uint32_t Communicator::number_of_name(const Invocation& in) {
  return timeline_ && in.name != nullptr ? timeline_->number_of(in.name) : 0;
}

void Communicator::begin_timeline(Deadline until) {
  if (!timeline_) return;
  Clocks clocks = compare_clocks(until);
  const Nanoseconds zero = clocks[0].at;
  timeline_->start(std::move(clocks), zero);
  timeline_->of_host().set_on_failure([this] { write_part(); });
}

// A message between two ranks, as an operation in which the others do nothing: it ends like any
// other when a rank fails.
void Communicator::run_message(int from, int to, std::span<std::byte> data, Deadline until) {
  Task task;
  task.goal = {ECH_BROADCAST, rank_, size(), from};
  const Program program = message(from, to, task.goal);
  task.program = &program;
  task.input = task.output = data.data();
  task.count = task.bytes = task.segment = data.size();
  task.timeout = std::max(until - Clock::now(), Deadline::duration::zero());
  task.signature.kind = Signature::kTimeline;
  engine_.run(task);
}

// Of `other`; what the rest of the ranks get says nothing.
ClockReading Communicator::compare_clock(int other, Deadline until) {
  ClockReading best;
  for (int trip = 0; trip < kTrips; ++trip) {
    Nanoseconds there = 0;
    const auto data = std::as_writable_bytes(std::span(&there, 1));
    const Nanoseconds began = clock_now();
    run_message(other, 0, data, until);
    if (rank_ == 0) there = clock_now();
    run_message(0, other, data, until);
    const Nanoseconds ended = clock_now(), error = (ended - began + 1) / 2;
    if (trip == 0 || error < best.error) best = {ended, there - (began + error), error};
  }
  return best;
}

// One rank of each host compares with rank 0; the ranks of a host have one clock.
Clocks Communicator::compare_clocks(Deadline until) {
  ClockReading mine{clock_now(), 0, 0};
  for (int host = 0; host < host_count(); ++host) {
    const int first = layout_.ranks_of_host(host).front();
    if (first == 0) continue;
    const ClockReading found = compare_clock(first, until);
    if (rank_ == first) mine = found;
  }
  std::string told = ByteWriter()
                         .u64(static_cast<std::uint64_t>(mine.at))
                         .u64(static_cast<std::uint64_t>(mine.behind))
                         .u64(static_cast<std::uint64_t>(mine.error))
                         .take();
  Clocks clocks;
  for (const std::string& bytes : control_->allgather(told, until)) {
    ByteReader reader(bytes, "a rank's clock");
    ClockReading& clock = clocks.emplace_back();
    clock.at = static_cast<Nanoseconds>(reader.u64());
    clock.behind = static_cast<Nanoseconds>(reader.u64());
    clock.error = static_cast<Nanoseconds>(reader.u64());
  }
  for (int rank = 0; rank < size(); ++rank) {
    const int first = layout_.ranks_of_host(layout_.host_of_rank[rank]).front();
    clocks[rank] = clocks[first];
  }
  return clocks;
}

// When all operations have ended on all ranks.
void Communicator::merge_timeline(Deadline until) {
  timeline_->stop();
  const Clocks last = compare_clocks(until);
  std::vector<RankAbout> about;
  const std::string dropped = ByteWriter().u64(timeline_->dropped()).take();
  for (const std::string& bytes : control_->allgather(dropped, until)) {
    const auto rank = static_cast<int>(about.size());
    ByteReader reader(bytes, "a rank's dropped records");
    about.push_back({rank, rank_names_[rank], last[rank], reader.u64()});
  }
  std::optional<TimelineFile> file;
  std::string failure;
  if (rank_ == 0) failure = open_timeline(file, about);
  Gathering gathering(
      size(), file ? &*file : nullptr, [&](std::span<const char> mine, std::span<char> all) {
        Signature signature;
        signature.kind = Signature::kTimeline;
        Task task = task_of({ECH_ALLGATHER, mine.data(), all.data(), mine.size()}, signature);
        task.timeout = std::max(until - Clock::now(), Deadline::duration::zero());
        engine_.run(task);
      });
  write_events(timeline_->traced(last), [&](std::string_view event) { gathering.add(event); });
  gathering.finish();
  if (failure.empty()) failure = gathering.failure();
  timeline_kept_ = true;
  timeline_->of_host().set_on_failure({});
  report_timeline(timeline_->path(), failure, ECH_LOG_INFO);
}

// "" or why there is none.
std::string Communicator::open_timeline(std::optional<TimelineFile>& file,
                                        std::span<const RankAbout> about) const {
  try {
    file.emplace(timeline_->path());
    file->write(trace_head(about, size()));
    return {};
  } catch (const Error& e) {
    file.reset();
    return e.what();
  }
}

void Communicator::report_timeline(const std::string& path, const std::string& failure,
                                   ech_log_level level) const {
  if (!failure.empty()) {
    log_(ECH_LOG_ERROR, "the timeline is lost: " + failure);
    return;
  }
  if (timeline_->dropped() > 0)
    log_(ECH_LOG_WARN,
         fmt::format("the timeline lacks the last {} records of rank {}: there was "
                     "room for {} operations and {} phases",
                     timeline_->dropped(), rank_, Recorder::kOperations, Recorder::kPhases));
  if (rank_ == 0 || level < ECH_LOG_INFO) log_(level, "the timeline is in " + path);
}

// After a failure. Asks nobody.
void Communicator::write_part() noexcept {
  if (!timeline_ || !timeline_->started()) return;
  timeline_kept_ = gpu_ == nullptr;  // whose thread may still have something to note
  try {
    const std::string path = timeline_->path_of_part();
    const RankAbout about{rank_, rank_names_[rank_], timeline_->first_reading(),
                          timeline_->dropped()};
    std::optional<TimelineFile> file(std::in_place, path);
    file->write(trace_head({&about, 1}, size()));
    write_events(timeline_->traced({}), [&](std::string_view event) {
      file->write(kBetweenEvents);
      file->write(event);
    });
    file->write(kTraceEnd);
    file->commit();
    report_timeline(path, "", ECH_LOG_WARN);
  } catch (const Error& e) {
    report_timeline("", e.what(), ECH_LOG_ERROR);
  } catch (const std::exception&) {  // no memory, not even to say so
  }
}

}  // namespace echelon
