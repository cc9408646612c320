// SPDX-License-Identifier: Apache-2.0
#include "lib/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/bytes.h"
#include "lib/base/dtype.h"
#include "lib/base/time.h"
#include "lib/bootstrap/inquiry.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/gpu_links.h"
#include "lib/fabric/loaders.h"

namespace echelon {
namespace {

constexpr std::size_t kMostCallsAhead = 64;
constexpr std::size_t kMostBytesAhead = 64 << 20;

// What plans may use: a single host has no message transport unless somebody asked for a plan.
Shape shape_for(const Layout& layout, const CommunicatorParts& parts) {
  Shape shape = make_shape(layout, true);
  shape.messages = parts.engine.transport != nullptr;
  return shape;
}

// The same of the GPUs. A plan that the user asked for is taken where it fits.
std::optional<Plans> gpu_plans(const Layout& layout, int rank, const Options& options,
                               const GpuParts& gpu) {
  if (!gpu.device) return std::nullopt;
  Shape shape = make_shape(layout, gpu.use.native);
  shape.host_memory = false;
  shape.reduce_speed = kGpuReduceSpeed;
  shape.messages = gpu.device->engine.transport != nullptr;
  std::optional<Recipe> wanted;
  if (!options.algorithm.empty()) wanted = parse_recipe(options.algorithm);
  if (wanted && !can_do(shape, *wanted, ECH_ALLREDUCE)) wanted.reset();
  return std::optional<Plans>(std::in_place, std::move(shape), rank, std::move(wanted));
}

// A plan that can do nothing here is one for GPUs, or was asked for if possible.
std::optional<Recipe> wanted_recipe(const Options& options, const Shape& shape) {
  if (options.algorithm.empty()) return std::nullopt;
  const Recipe wanted = parse_recipe(options.algorithm);
  if (!can_do(shape, wanted, ECH_ALLREDUCE)) return std::nullopt;
  return wanted;
}

struct Helpers {
  Watch* watch;
  Planner* planner;
  Recorder* recorder;
};

EngineParts with(EngineParts parts, const Helpers& helpers) {
  parts.watch = helpers.watch;
  parts.planner = helpers.planner;
  parts.recorder = helpers.recorder;
  return parts;
}

// Whether some ranks only send and others only receive.
bool one_way(const Invocation& in) {
  return in.collective == ECH_BROADCAST || in.collective == ECH_REDUCE;
}

}  // namespace

Signature signature_of(const Invocation& in) {
  Signature s;
  s.collective = static_cast<std::uint8_t>(in.collective);
  s.dtype = static_cast<std::uint8_t>(in.dtype);
  s.op = static_cast<std::uint8_t>(in.op);
  s.root = in.root;
  s.count = in.count;
  s.cuda = in.on_gpu;
  if (in.list) {
    s.kind = Signature::kMany;
    s.buffers = in.list->buffers();
    s.digest = in.list->digest();
  }
  return s;
}

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
      nics_{std::move(parts.nics), from_seconds(options_.heartbeat)},
      plans_(shape_for(layout_, parts), rank_, wanted_recipe(options_, shape_for(layout_, parts)),
             std::move(parts.tuned)),
      watch_(*control_, rank_names_, log_, nics_),
      timeline_(options_.timeline.empty() ? nullptr
                                          : std::make_unique<Timeline>(options_.timeline, rank_)),
      engine_(with(std::move(parts.engine),
                   {&watch_, this, timeline_ ? &timeline_->of_host() : nullptr})),
      gpu_absence_(parts.gpu.use.absence),
      gpu_plans_(gpu_plans(layout_of_gpus(layout_, fabric_, places_, parts.gpu.use), rank_,
                           options_, parts.gpu)),
      gpu_watch_(*control_, rank_names_, log_, nics_) {
  if (parts.gpu.device && timeline_) parts.gpu.device->engine.recorder = &timeline_->of_gpu();
  if (parts.gpu.device)
    gpu_ = std::make_unique<DeviceEngine>(std::move(*parts.gpu.device), gpu_watch_);
  const std::vector<int> local = layout_.ranks_of_host(host_index());
  local_size_ = static_cast<int>(local.size());
  local_rank_ = static_cast<int>(std::ranges::find(local, rank_) - local.begin());
  std::vector<int> mates;  // whose processes we share memory with, hence can watch
  if (engine_.group() != nullptr)
    std::ranges::copy_if(local, std::back_inserter(mates), [&](int r) { return r != rank_; });
  control_->attend(this, mates);
}

Communicator::~Communicator() {
  control_->attend(nullptr, {});
  if (!timeline_) return;
  timeline_->of_host().set_on_failure({});
  gpu_.reset();  // whose thread has noted all then
  if (!timeline_kept_) write_part();
}

void Communicator::failed() noexcept {
  engine_.interrupt();
  if (gpu_) gpu_->interrupt();
  if (standby_ && !shrinking_) standby_->answer();  // until the caller comes to shrink()
}

std::string Communicator::last_seen(int rank) const {
  const std::span<const std::byte> board = engine_.board(rank);
  return board.empty() ? "" : Activity::read(board).text();
}

Snapshot Communicator::activity() const {
  Snapshot mine = engine_.activity().read();
  return gpu_ ? merged(std::move(mine), gpu_->activity()) : mine;
}

std::size_t Communicator::bytes_of(const Invocation& in) const {
  const bool blocks = in.collective == ECH_REDUCE_SCATTER || in.collective == ECH_ALLGATHER;
  return in.count * size_of(in.dtype) * (blocks ? size() : 1);
}

// The one that does the work of a barrier, or of a fence before `of`.
Invocation Communicator::barrier(const Invocation& of) {
  Invocation in{ECH_ALLREDUCE, &barrier_in_, &barrier_out_, 1, ECH_UINT8, ECH_MAX, 0, of.timeout};
  if (!of.on_gpu) return in;
  in.on_gpu = true;
  in.send = gpu_->barrier_bytes();
  in.recv = gpu_->barrier_bytes() + 1;
  return in;
}

// Ranks that only send in a broadcast or reduce run ahead of those that receive, whose memory would
// fill with what comes too early. So now and then a barrier goes before the next call, on every
// rank the same, and what is started then waits for its end.
void Communicator::fence_if_far_ahead(const Invocation& in) {
  Ahead& ahead = in.on_gpu ? ahead_on_gpu_ : ahead_;
  const bool far = ahead.calls >= kMostCallsAhead || ahead.bytes >= kMostBytesAhead;
  if (!one_way(in) || !far) return;
  Signature signature;
  signature.cuda = in.on_gpu;
  const Task fence = task_of(barrier(in), signature);
  if (in.on_gpu) {
    gpu_->fence(fence, engine_.next_sequence());
    engine_.take_sequence();
  } else {
    engine_.fence(fence);
  }
  ahead = {};
}

// When it has been started, not before: what is made again after an error counts once.
void Communicator::count_ahead(const Invocation& in, Ahead& ahead) {
  if (!one_way(in)) {
    if (in.count > 0 || in.collective == ECH_BARRIER) ahead = {};
    return;
  }
  ++ahead.calls;
  ahead.bytes += in.count * size_of(in.dtype);
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
  count_ahead(in, ahead_);
  return false;
}

Task Communicator::call_of(const Invocation& in) {
  Task task = in.collective == ECH_BARRIER ? task_of(barrier(in), signature_of(in))
                                           : task_of(in, signature_of(in));
  task.timed = NoteBook::is_timed(task.goal.collective, task.bytes, engine_.next_sequence());
  task.name = number_of_name(in);
  task.metered = notes_.is_metered(task.bytes);
  if (task.metered) notes_.begin_metering(engine_.counters().gave_way);
  return task;
}

Operation* Communicator::start(const Invocation& in) {
  if (!prepare(in)) return nullptr;
  const Task task = call_of(in);
  Operation* const operation = engine_.start(task);
  notes_.called(task.bytes, task.timed);
  notes_.started();
  count_ahead(in, ahead_);
  if (engine_.busy()) notes_.goes();
  return operation;
}

void Communicator::run(const Invocation& in) {
  if (!prepare(in)) return;
  const Task task = call_of(in);
  const auto start = task.timed ? Clock::now() : Clock::time_point();
  engine_.run(task);
  if (task.timed) notes_.waited(Clock::now() - start);
  notes_.called(task.bytes, task.timed);
  count_ahead(in, ahead_);
  if (engine_.busy()) notes_.goes();
}

void Communicator::status() {
  engine_.push();
  check();
}

void Communicator::check() {
  control_->check();
  if (engine_.failed() != ECH_OK) throw Error(engine_.failed(), engine_.failure());
  if (gpu_) gpu_->check();
}

// A barrier that goes with another call.
void Communicator::meet(Signature::Kind kind, Deadline until) {
  Signature signature;
  signature.kind = kind;
  engine_.drain(until);
  if (gpu_) gpu_->drain(until);
  Task task = task_of(barrier({}), signature);
  task.timeout = std::max(until - std::chrono::steady_clock::now(), Deadline::duration::zero());
  engine_.run(task);
}

void Communicator::set_algorithm(const std::string& text) {
  const Deadline until = deadline();
  meet(Signature::kPlan, until);
  const std::string sent = text.substr(0, kLongestRecipe + 1);  // shows all that it is too long
  const std::vector<std::string> all = control_->allgather(sent, until);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != all[0])
      throw invalid(fmt::format("{} asks for plan \"{}\", but rank 0 for \"{}\"", rank_names_[r],
                                printable(all[r]), printable(all[0])));
  settle();
  try {
    plans_.want(text.empty() ? std::nullopt : std::optional(parse_recipe(text)));
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) abort();  // which is so on all ranks
    throw;
  } catch (...) {
    abort();  // this rank would plan otherwise than the others
    throw;
  }
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
  if (in.list && !in.list->is_plain()) task.list = in.list;
  task.count = in.count;
  task.bytes = bytes_of(in);
  task.timeout = from_seconds(in.timeout > 0 ? in.timeout : options_.timeout);
  task.signature = signature;
  if (in.on_gpu) {
    set_plan(task, *gpu_plans_);
    return task;
  }
  if (!exchanges_.empty()) settle();
  if (exchanges_.empty()) set_plan(task, plans_);  // else the engine asks when its turn comes
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
  if (operation->task().timed) notes_.waited(Clock::now() - begin);
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
  if (timeline_) merge_timeline(until);
  control_->close(until);
}

void Communicator::abort() noexcept {
  control_->fail({ECH_ERR_ABORTED, rank_names_[rank_] + " aborted the communicator"});
  engine_.interrupt();
  if (gpu_) gpu_->interrupt();
}

std::string Communicator::fabric_text(ech_format format) const {
  const std::lock_guard lock(fabric_mutex_);
  if (format == ECH_JSON) return to_json(fabric_);
  if (format == ECH_TOML) return to_toml(fabric_);
  return to_text(fabric_, places_);
}

Choice Communicator::explain(ech_collective collective, std::size_t bytes, bool on_gpu) {
  if (on_gpu) gpu();
  settle();
  return (on_gpu ? *gpu_plans_ : plans_).explain({collective, std::max<std::size_t>(bytes, 1), 0});
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
  if (!gpu_) return c;
  const DeviceEngine::Counters on_gpu = gpu_->counters();
  c.operations += on_gpu.engine.operations;
  c.bytes += on_gpu.engine.bytes;
  c.waits += on_gpu.engine.waits;
  c.plans += gpu_plans_->made();
  c.network_bytes += on_gpu.network.bytes;
  c.network_messages += on_gpu.network.messages;
  c.shared_bytes += on_gpu.shared_bytes;
  return c;
}

}  // namespace echelon
