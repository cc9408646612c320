// SPDX-License-Identifier: Apache-2.0
#include "lib/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/bytes.h"
#include "lib/base/dtype.h"
#include "lib/base/time.h"
#include "lib/bootstrap/inquiry.h"
#include "lib/device_media.h"
#include "lib/fabric/formats.h"

namespace echelon {
namespace {

constexpr std::size_t kMostCallsAhead = 64;
constexpr std::size_t kMostBytesAhead = 64 << 20;
constexpr std::chrono::microseconds kBetweenLooks{
    100};                                     // at host memory, while a GPU is waited for
constexpr std::size_t kElementsPerLine = 64;  // segments begin at multiples of it

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
  Shape shape = make_shape(layout_of_gpus(layout, gpu.native), gpu.native);
  shape.messages = gpu.device->engine.transport != nullptr;
  std::optional<Recipe> wanted;
  if (!options.algorithm.empty()) wanted = parse_recipe(options.algorithm);
  if (wanted && !can_do(shape, *wanted, ECH_ALLREDUCE)) wanted.reset();
  return std::optional<Plans>(std::in_place, std::move(shape), rank, std::move(wanted));
}

std::optional<Recipe> wanted_recipe(const Options& options, const Shape& shape) {
  if (options.algorithm.empty()) return std::nullopt;
  const Recipe wanted = parse_recipe(options.algorithm);
  if (options.plan_if_possible && !can_do(shape, wanted, ECH_ALLREDUCE)) return std::nullopt;
  return wanted;
}

EngineParts with_watch(EngineParts parts, Watch* watch) {
  parts.watch = watch;
  return parts;
}

Signature signature_of(const Invocation& in) {
  Signature s;
  s.collective = static_cast<std::uint8_t>(in.collective);
  s.dtype = static_cast<std::uint8_t>(in.dtype);
  s.op = static_cast<std::uint8_t>(in.op);
  s.root = in.root;
  s.count = in.count;
  s.cuda = in.on_gpu;
  return s;
}

// Whether some ranks only send and others only receive.
bool one_way(const Invocation& in) {
  return in.collective == ECH_BROADCAST || in.collective == ECH_REDUCE;
}

// Elements per block of a segment, all segments but the last equal.
std::size_t segment_elements(const Plan& plan, std::size_t count, std::size_t bytes) {
  const std::size_t wanted = plan.choice.best.recipe.segment;
  if (wanted == 0 || wanted >= bytes) return count;
  const std::size_t segments = (bytes + wanted - 1) / wanted;
  const std::size_t even = (count + segments - 1) / segments;
  const std::size_t rounded = (even + kElementsPerLine - 1) / kElementsPerLine * kElementsPerLine;
  return std::min(count, rounded);
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
      plans_(shape_for(layout_, parts), rank_, wanted_recipe(options_, shape_for(layout_, parts))),
      watch_(*control_, rank_names_, log_),
      engine_(with_watch(std::move(parts.engine), &watch_)),
      gpu_absence_(std::move(parts.gpu.absence)),
      gpu_plans_(gpu_plans(layout_, rank_, options_, parts.gpu)),
      gpu_watch_(*control_, rank_names_, log_) {
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

Communicator::~Communicator() { control_->attend(nullptr, {}); }

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

PlanKey Communicator::key_of(const Invocation& in) const {
  const bool blocks = in.collective == ECH_REDUCE_SCATTER || in.collective == ECH_ALLGATHER;
  const std::size_t elements = blocks ? in.count * size() : in.count;
  return {in.collective, elements * size_of(in.dtype), in.root};
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

Operation* Communicator::start(const Invocation& in) {
  if (options_.check) agree(signature_of(in));
  fence_if_far_ahead(in);
  Operation* operation = nullptr;
  if (in.count > 0)
    operation = engine_.start(task_of(in, signature_of(in)));
  else if (in.collective == ECH_BARRIER)
    operation = engine_.start(task_of(barrier(in), signature_of(in)));
  else
    engine_.note(signature_of(in));
  count_ahead(in, ahead_);
  return operation;
}

void Communicator::run(const Invocation& in) {
  if (options_.check) agree(signature_of(in));
  fence_if_far_ahead(in);
  if (in.count > 0)
    engine_.run(task_of(in, signature_of(in)));
  else if (in.collective == ECH_BARRIER)
    engine_.run(task_of(barrier(in), signature_of(in)));
  else
    engine_.note(signature_of(in));
  count_ahead(in, ahead_);
}

DeviceEngine& Communicator::gpu() {
  if (gpu_) return *gpu_;
  throw Error(ECH_ERR_UNSUPPORTED,
              "there are no collectives on CUDA memory in this communicator: " + gpu_absence_);
}

// A number is taken when the call has been started, not before: on all ranks alike.
DeviceEngine::Call Communicator::start_on_gpu(const Invocation& in) {
  DeviceEngine& engine = gpu();
  check();
  if (options_.check) agree(signature_of(in));
  if (in.count == 0 && in.collective != ECH_BARRIER) {
    engine_.note(signature_of(in));
    return nullptr;
  }
  fence_if_far_ahead(in);
  const Task task = task_of(in.count > 0 ? in : barrier(in), signature_of(in));
  const std::uint64_t sequence = engine_.next_sequence();
  DeviceEngine::Call call =
      in.in_stream ? engine.start_in(static_cast<CudaStream>(in.stream), task, sequence)
                   : engine.start(task, sequence);
  engine_.take_sequence();
  count_ahead(in, ahead_on_gpu_);
  if (in.in_stream && !engine.holds(*call)) wait_on_gpu(*call);
  return call;
}

void Communicator::run_on_gpu(const Invocation& in) {
  const DeviceEngine::Call call = start_on_gpu(in);
  if (call && !in.in_stream) wait_on_gpu(*call);
}

bool Communicator::test_on_gpu(const DeviceCall& call) {
  engine_.progress();
  return gpu_->done(call);
}

// What is under way on host memory goes on meanwhile: another rank may wait for it before it comes
// to this call.
void Communicator::wait_on_gpu(const DeviceCall& call) {
  while (engine_.busy() && !gpu_->done(call))
    if (!engine_.progress()) gpu_->wait_for(call, kBetweenLooks);
  gpu_->wait(call);
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

Task Communicator::task_of(const Invocation& in, const Signature& signature) {
  const PlanKey key = key_of(in);
  const Plan& plan = (in.on_gpu ? *gpu_plans_ : plans_).get(key);
  Task task;
  task.goal = {in.collective, rank_, size(), in.root};
  task.dtype = in.dtype;
  task.op = in.op;
  task.input = static_cast<const std::byte*>(in.send);
  task.output = static_cast<std::byte*>(in.recv);
  if (in.collective == ECH_BROADCAST && rank_ != in.root) task.input = task.output;
  if (in.collective == ECH_REDUCE && rank_ != in.root) task.output = nullptr;
  task.count = in.count;
  task.segment = segment_elements(plan, in.count, key.bytes);
  task.program = task.segment >= in.count ? &plan.whole : &plan.cut;
  task.timeout = from_seconds(in.timeout > 0 ? in.timeout : options_.timeout);
  task.signature = signature;
  return task;
}

bool Communicator::test(Operation* operation) {
  return operation == nullptr || engine_.test(*operation);
}

void Communicator::finish(Operation* operation) {
  if (operation == nullptr) return;
  engine_.wait(*operation);
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
  if (gpu_) gpu_->interrupt();
}

std::string Communicator::fabric_text(ech_format format) const {
  if (format == ECH_JSON) return to_json(fabric_);
  if (format == ECH_TOML) return to_toml(fabric_);
  return to_text(fabric_, places_);
}

Choice Communicator::explain(ech_collective collective, std::size_t bytes, bool on_gpu) {
  if (on_gpu) gpu();
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
