// SPDX-License-Identifier: Apache-2.0
#include "lib/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/bytes.h"
#include "lib/base/dtype.h"
#include "lib/base/time.h"
#include "lib/bootstrap/inquiry.h"
#include "lib/bootstrap/rendezvous.h"
#include "lib/create.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/nic_state.h"

namespace echelon {
namespace {

constexpr std::size_t kMostCallsAhead = 64;
constexpr std::size_t kMostBytesAhead = 64 << 20;
constexpr std::chrono::hours kLongAgo{1};      // longer than any patience
constexpr std::chrono::seconds kFirstLine{1};  // no line about waiting is logged before
constexpr std::chrono::seconds kNicPeriod{1};  // of looking at NICs, while this rank waits

// What plans may use: a single host has no message transport unless somebody asked for a plan.
Shape shape_for(const Layout& layout, const CommunicatorParts& parts) {
  Shape shape = make_shape(layout, true);
  shape.messages = parts.engine.transport != nullptr;
  return shape;
}

std::optional<Recipe> wanted_recipe(const Options& options, const Shape& shape) {
  if (options.algorithm.empty()) return std::nullopt;
  const Recipe wanted = parse_recipe(options.algorithm);
  if (options.plan_if_possible && !can_do(shape, wanted, ECH_ALLREDUCE)) return std::nullopt;
  return wanted;
}

struct Helpers {
  Watch* watch;
  Planner* planner;
};

EngineParts with(EngineParts parts, const Helpers& helpers) {
  parts.watch = helpers.watch;
  parts.planner = helpers.planner;
  return parts;
}

// A new unique id, or why there is none: then every rank must hear of it.
std::string meeting_point(const Options& options) {
  try {
    const ech_unique_id id = encode(listen_for_ranks(options.interface_name));
    return {id.bytes, sizeof id.bytes};
  } catch (const Error& e) {
    return std::string("cannot listen: ") + e.what();
  }
}

// The socket that listens for an id that nobody will use.
void close_meeting_point(const std::string& shown) {
  ech_unique_id id{};
  if (shown.size() != sizeof id.bytes) return;
  shown.copy(id.bytes, sizeof id.bytes);
  take_listener(decode(id));
}

Signature signature_of(const Invocation& in) {
  Signature s;
  s.collective = static_cast<std::uint8_t>(in.collective);
  s.dtype = static_cast<std::uint8_t>(in.dtype);
  s.op = static_cast<std::uint8_t>(in.op);
  s.root = in.root;
  s.count = in.count;
  return s;
}

// Whether some ranks only send and others only receive.
bool one_way(const Invocation& in) {
  return in.collective == ECH_BROADCAST || in.collective == ECH_REDUCE;
}

}  // namespace

Communicator::Communicator(CommunicatorParts parts)
    : options_(std::move(parts.options)),
      log_(parts.log),
      control_(std::move(parts.control)),
      standby_(std::move(parts.standby)),
      seats_(std::move(parts.seats)),
      rank_(control_->rank()),
      fabric_(std::move(parts.fabric)),
      places_(std::move(parts.places)),
      layout_(std::move(parts.layout)),
      rank_names_(std::move(parts.rank_names)),
      nics_(std::move(parts.nics)),
      plans_(shape_for(layout_, parts), rank_, wanted_recipe(options_, shape_for(layout_, parts))),
      engine_(with(std::move(parts.engine), {this, this})) {
  const std::vector<int> local = layout_.ranks_of_host(host_index());
  local_size_ = static_cast<int>(local.size());
  local_rank_ = static_cast<int>(std::ranges::find(local, rank_) - local.begin());
  std::vector<int> mates;  // whose processes we share memory with, hence can watch
  if (engine_.group() != nullptr)
    std::ranges::copy_if(local, std::back_inserter(mates), [&](int r) { return r != rank_; });
  control_->attend(this, mates);
}

Communicator::~Communicator() { control_->attend(nullptr, {}); }

void Communicator::failed() noexcept {
  engine_.interrupt();
  if (standby_ && !shrinking_) standby_->answer();  // until the caller comes to shrink()
}

std::string Communicator::last_seen(int rank) const {
  const std::span<const std::byte> board = engine_.board(rank);
  return board.empty() ? "" : Activity::read(board).text();
}

std::string Communicator::waiting(std::chrono::nanoseconds since) {
  if (since < kFirstLine) complain_at_ = kFirstLine;
  look_for_lost_nics(since);
  std::string why = control_->waiting(since);
  if (!why.empty() && since >= complain_at_) {
    log_(ECH_LOG_WARN, fmt::format("{}, for {:.1f} s by now", why, to_seconds(since)));
    complain_at_ = 2 * since;
  }
  return why;
}

// What was sent by a NIC that has vanished is lost, and nothing says so: who waits looks. One that
// is down may come back, for as long as a rank that is silent is waited for.
void Communicator::look_for_lost_nics(std::chrono::nanoseconds since) {
  if (since < kNicPeriod) look_at_ = kNicPeriod;
  if (since < look_at_) return;
  look_at_ = since + kNicPeriod;
  const bool long_enough = since >= from_seconds(options_.heartbeat);
  for (const std::string& nic : nics_) {
    const NicState state = nic_state(nic);
    if (state == NicState::kThere || (state == NicState::kDown && !long_enough)) continue;
    return control_->fail({ECH_ERR_PEER, fmt::format("{} has lost its network interface {}, which "
                                                     "is {}",
                                                     rank_names_[rank_], nic,
                                                     state == NicState::kGone ? "gone" : "down")});
  }
}

void Communicator::ask() { control_->waiting(kLongAgo); }

std::size_t Communicator::bytes_of(const Invocation& in) const {
  const bool blocks = in.collective == ECH_REDUCE_SCATTER || in.collective == ECH_ALLGATHER;
  return in.count * size_of(in.dtype) * (blocks ? size() : 1);
}

Invocation Communicator::barrier(double timeout) {
  return {ECH_ALLREDUCE, &barrier_in_, &barrier_out_, 1, ECH_UINT8, ECH_MAX, 0, timeout};
}

// Ranks that only send in a broadcast or reduce run ahead of those that receive, whose memory would
// fill with what comes too early. So now and then a barrier goes before the next call, on every
// rank the same, and what is started then waits for its end.
void Communicator::fence_if_far_ahead(const Invocation& in) {
  const bool far = calls_ahead_ >= kMostCallsAhead || bytes_ahead_ >= kMostBytesAhead;
  if (!one_way(in) || !far) return;
  engine_.fence(task_of(barrier(in.timeout), Signature()));
  calls_ahead_ = bytes_ahead_ = 0;
}

// When it has been started, not before: what is made again after an error counts once.
void Communicator::count_ahead(const Invocation& in) {
  if (!one_way(in)) {
    if (in.count > 0 || in.collective == ECH_BARRIER) calls_ahead_ = bytes_ahead_ = 0;
    return;
  }
  ++calls_ahead_;
  bytes_ahead_ += in.count * size_of(in.dtype);
}

// The checked mode. What is under way ends first, for nothing moves while the others are asked.
void Communicator::agree(const Signature& signature) {
  const Deadline until = deadline();
  engine_.drain(until);
  Snapshot mine;
  mine.calls.push_back({engine_.next_sequence(), signature, true});
  std::vector<Snapshot> all;
  for (const std::string& bytes : control_->allgather(encode_snapshot(mine), until))
    all.push_back(decode_snapshot(bytes));
  const Comparison found = compare(all, [&](int rank) { return rank_names_[rank]; });
  if (found.mismatch.empty()) return;
  const Error error(ECH_ERR_MISMATCH, found.mismatch);
  control_->fail(error);
  throw error;
}

// What every call does first. True when there is something to do. Whether a period is over depends
// on nothing but the calls that were made before: on all ranks the same.
bool Communicator::prepare(const Invocation& in) {
  notes_.comes();
  if (options_.check) agree(signature_of(in));
  if (notes_.period_is_over() && size() > 1) close_period();
  fence_if_far_ahead(in);
  if (in.count > 0 || in.collective == ECH_BARRIER) return true;
  engine_.note(signature_of(in));
  count_ahead(in);
  return false;
}

Communicator::Call Communicator::call_of(const Invocation& in) {
  Call call{in.collective == ECH_BARRIER ? task_of(barrier(in.timeout), signature_of(in))
                                         : task_of(in, signature_of(in))};
  call.timed = is_timed(call.task, engine_.next_sequence());
  call.task.metered = notes_.is_metered(call.task.bytes);
  if (call.task.metered) notes_.begin_metering();
  return call;
}

Operation* Communicator::start(const Invocation& in) {
  if (!prepare(in)) return nullptr;
  const Call call = call_of(in);
  Operation* const operation = engine_.start(call.task);
  notes_.called(call.task.bytes, call.timed);
  notes_.started();
  count_ahead(in);
  if (engine_.busy()) notes_.goes();
  return operation;
}

void Communicator::run(const Invocation& in) {
  if (!prepare(in)) return;
  const Call call = call_of(in);
  const auto start = call.timed ? Clock::now() : Clock::time_point();
  engine_.run(call.task);
  if (call.timed) notes_.waited(Clock::now() - start);
  notes_.called(call.task.bytes, call.timed);
  count_ahead(in);
  if (engine_.busy()) notes_.goes();
}

bool Communicator::is_timed(const Task& task, std::uint64_t sequence) {
  return NoteBook::is_timed(task.goal.collective, task.bytes, sequence);
}

// A barrier that goes with another call.
void Communicator::meet(Signature::Kind kind, Deadline until) {
  Signature signature;
  signature.kind = kind;
  engine_.drain(until);
  Task task = task_of(barrier(0), signature);
  task.timeout = std::max(until - std::chrono::steady_clock::now(), Deadline::duration::zero());
  engine_.run(task);
}

Task Communicator::task_of(const Invocation& in, const Signature& signature) {
  Task task;
  task.goal = {in.collective, rank_, size(), in.root};
  task.dtype = in.dtype;
  task.op = in.op;
  task.input = static_cast<const std::byte*>(in.send);
  task.output = static_cast<std::byte*>(in.recv);
  if (in.collective == ECH_BROADCAST && rank_ != in.root) task.input = task.output;
  if (in.collective == ECH_REDUCE && rank_ != in.root) task.output = nullptr;
  task.count = in.count;
  task.bytes = bytes_of(in);
  task.timeout = from_seconds(in.timeout > 0 ? in.timeout : options_.timeout);
  task.signature = signature;
  if (!exchanges_.empty()) settle();
  if (exchanges_.empty()) set_plan(task);  // else the engine asks when its turn comes
  return task;
}

bool Communicator::test(Operation* operation) {
  return operation == nullptr || engine_.test(*operation);
}

void Communicator::finish(Operation* operation) {
  if (operation == nullptr) return;
  notes_.comes();
  const auto begin = Clock::now();
  engine_.wait(*operation);
  notes_.ended();
  if (is_timed(operation->task(), operation->sequence())) notes_.waited(Clock::now() - begin);
  if (engine_.busy()) notes_.goes();
  const ech_status status = operation->status();
  engine_.release(operation);
  if (status != ECH_OK) throw Error(status, engine_.failure());
}

Deadline Communicator::deadline() const {
  return std::chrono::steady_clock::now() + from_seconds(options_.timeout);
}

void Communicator::close() {
  engine_.progress();  // an abort may not have been noticed yet
  if (engine_.failed() != ECH_OK) {
    control_->fail({engine_.failed(), engine_.failure()});
    return;
  }
  const Deadline until = deadline();
  meet(Signature::kDestroy, until);
  control_->close(until);
}

void Communicator::abort() noexcept {
  control_->fail({ECH_ERR_ABORTED, rank_names_[rank_] + " aborted the communicator"});
  engine_.interrupt();
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  const Deadline until = deadline();
  meet(Signature::kSplit, until);
  const std::string mine = ByteWriter().u32(color).u32(key).take();
  std::vector<std::pair<int, int>> members;  // (key, rank) of my color
  const std::vector<std::string> all = control_->allgather(mine, until);
  for (int r = 0; r < size(); ++r) {
    ByteReader reader(all[r], "a rank's color");
    const int their_color = static_cast<int>(reader.u32());
    if (their_color == color) members.emplace_back(static_cast<int>(reader.u32()), r);
  }
  std::ranges::sort(members);
  const bool first = color >= 0 && members.front().second == rank_;
  const std::string shown =
      show_meeting_point(first, members.empty() ? 0 : members.front().second, until);
  if (color < 0) return nullptr;
  ech_unique_id id{};
  if (shown.size() != sizeof id.bytes)
    throw Error(ECH_ERR_SYSTEM, rank_names_[members.front().second] + " " + shown);
  shown.copy(id.bytes, sizeof id.bytes);
  const auto me = std::ranges::find(members, rank_, &std::pair<int, int>::second);
  const Identity identity = Identity::with(decode(id), static_cast<int>(me - members.begin()),
                                           static_cast<int>(members.size()));
  Options options = options_;
  options.plan_if_possible = true;
  return create_communicator({join_part(identity, until)}, options, log_, until);
}

// Where the ranks of a part meet, as its first rank shows it.
std::string Communicator::show_meeting_point(bool first, int leader, Deadline until) {
  const std::string mine = first ? meeting_point(options_) : "";
  try {
    return control_->allgather(mine, until)[leader];
  } catch (const Error&) {
    close_meeting_point(mine);
    throw;
  }
}

// When this communicator fails, some ranks do not come any more.
std::unique_ptr<Control> Communicator::join_part(const Identity& identity, Deadline until) {
  try {
    return join(identity, {until, options_.interface_name, log_, {}, [this] { check(); }});
  } catch (const Error&) {
    check();  // the better reason
    throw;
  }
}

std::string Communicator::fabric_text(ech_format format) const {
  const std::lock_guard lock(fabric_mutex_);
  if (format == ECH_JSON) return to_json(fabric_);
  if (format == ECH_TOML) return to_toml(fabric_);
  return to_text(fabric_, places_);
}

Choice Communicator::explain(ech_collective collective, std::size_t bytes, int root) {
  settle();
  return plans_.explain({collective, std::max<std::size_t>(bytes, 1), root});
}

ech_counters Communicator::counters() const {
  ech_counters c{};
  c.struct_size = sizeof c;
  c.operations = engine_.counters().operations;
  c.bytes = engine_.counters().bytes;
  c.waits = engine_.counters().waits;
  c.plans = plans_.made();
  if (const Transport* t = engine_.transport()) {
    c.network_bytes = t->counters().bytes;
    c.network_messages = t->counters().messages;
  }
  if (engine_.group() != nullptr) c.shared_bytes = engine_.group()->bytes();
  return c;
}

}  // namespace echelon
