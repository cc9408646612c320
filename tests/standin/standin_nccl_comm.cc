// SPDX-License-Identifier: Apache-2.0
#include "tests/standin/standin_nccl_comm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/standin/standin_cuda_api.h"

namespace echelon::standin {
namespace {

struct Aborted {};

std::size_t ranks(const Seat& seat) { return static_cast<std::size_t>(seat.size); }

// Elements that a rank gives, and gets. The first is 0 where a rank has no input, and so on.
std::size_t given(const Terms& t, const Seat& seat) {
  if (t.collective == Collective::kReduceScatter) return t.count * ranks(seat);
  if (t.collective == Collective::kBroadcast && seat.rank != t.root) return 0;
  return t.count;
}

std::size_t gotten(const Terms& t, const Seat& seat) {
  if (t.collective == Collective::kAllgather || t.collective == Collective::kSplit)
    return t.count * ranks(seat);
  if (t.collective == Collective::kReduce && seat.rank != t.root) return 0;
  return t.count;
}

// What all ranks together get: a rank gets it all, or its part of it.
Buffer combine(const Terms& t, const std::vector<Buffer>& inputs) {
  if (t.collective == Collective::kBroadcast) return inputs[static_cast<std::size_t>(t.root)];
  if (t.collective != Collective::kAllgather && t.collective != Collective::kSplit)
    return reduce(inputs, inputs[0].size() / size_of(t.type), t.type, t.op);
  Buffer all;
  for (const Buffer& input : inputs) all.insert(all.end(), input.begin(), input.end());
  return all;
}

std::string text_of(const Terms& t) {
  constexpr const char* kNames[] = {"allreduce", "reduce_scatter", "allgather",
                                    "broadcast", "reduce",         "split"};
  return std::string(kNames[static_cast<int>(t.collective)]) + " of " + std::to_string(t.count) +
         ", type " + std::to_string(t.type) + ", op " + std::to_string(t.op) + ", root " +
         std::to_string(t.root);
}

void require_same(const Terms& own, const Terms& other, int rank) {
  if (own == other) return;
  give_up("rank 0 calls " + text_of(own) + "; rank " + std::to_string(rank) + " calls " +
          text_of(other));
}

}  // namespace

// Never destroyed: threads of streams outlive main().
Faults& nccl_faults() {
  static auto& all = *new Faults("STANDIN_NCCL_FAIL");
  return all;
}

Comm::Comm(Seat its_seat, bool is_blocking, CudaContext context, int its_device)
    : seat(std::move(its_seat)),
      blocking(is_blocking),
      device(its_device),
      background_(Stream::start(0, false)) {
  background_->enqueue([context] { cuCtxPushCurrent_v2(context); });
}

void Comm::connect() {
  if (seat.size == 1 || aborted_) return;
  try {
    auto links = std::make_unique<Links>(seat.name, seat.rank, seat.size, aborted_);
    const std::lock_guard lock(mutex_);
    links_ = std::move(links);
    if (aborted_) links_->shut_down();
  } catch (const Links::Lost&) {
    set_result(kNcclSystemError);
  }
}

NcclResult Comm::result() const {
  const std::lock_guard lock(mutex_);
  return result_;
}

// An error stays; "in progress" gives way to everything.
void Comm::set_result(NcclResult result) {
  const std::lock_guard lock(mutex_);
  if (result_ == kNcclSuccess || result_ == kNcclInProgress) result_ = result;
}

MarkPtr Comm::start(std::function<void()> job) {
  static const std::chrono::duration<double> delay(number_from("STANDIN_NCCL_DELAY", 1e-3));
  {
    const std::lock_guard lock(mutex_);
    ++jobs_;
    if (result_ == kNcclSuccess) result_ = kNcclInProgress;
  }
  return background_->enqueue([this, job = std::move(job)] {
    if (!blocking) std::this_thread::sleep_for(delay);
    job();
    const std::lock_guard lock(mutex_);
    if (--jobs_ == 0 && result_ == kNcclInProgress) result_ = kNcclSuccess;
    changed_.notify_all();
  });
}

std::uint64_t Comm::ticket() {
  const std::lock_guard lock(mutex_);
  return issued_++;
}

void Comm::run(std::uint64_t ticket, const std::vector<Operation>& operations) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == ticket || aborted_; });
    running_ = true;
  }
  try {
    for (const Operation& operation : operations) perform(operation);
  } catch (const Aborted&) {
  }
  const std::lock_guard lock(mutex_);
  running_ = false;
  ++done_;
  changed_.notify_all();
}

void Comm::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == issued_ || aborted_; });
}

void Comm::abort() {
  std::unique_lock lock(mutex_);
  aborted_ = true;
  if (links_) links_->shut_down();
  changed_.notify_all();
  // Also for what goes on in the background: it may still put work into streams.
  changed_.wait(lock, [&] { return !running_ && jobs_ == 0; });
}

void Comm::close() { background_->close(); }

// As a kernel that waits for a rank that never comes.
void Comm::hang() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return aborted_.load(); });
  throw Aborted();
}

void Comm::perform(const Operation& operation) {
  if (aborted_) throw Aborted();
  if (const int error = nccl_faults().next("async"); error != 0) {
    set_result(NcclResult(error));
    hang();
  }
  const Terms& t = operation.terms;
  Buffer input;
  if (const std::size_t n = given(t, seat); n > 0)
    input.assign(operation.send, operation.send + n * size_of(t.type));
  const Buffer output = exchange(t, std::move(input));
  if (!output.empty()) std::memcpy(operation.recv, output.data(), output.size());
}

Buffer Comm::exchange(const Terms& terms, Buffer input) {
  try {
    if (seat.rank == 0) return lead(terms, std::move(input));
    links_->send(0, &terms, sizeof terms);
    links_->send(0, input.data(), input.size());
    Buffer output(gotten(terms, seat) * size_of(terms.type));
    links_->receive(0, output.data(), output.size());
    return output;
  } catch (const Links::Lost&) {
    hang();
    return {};
  }
}

Buffer Comm::lead(const Terms& terms, Buffer input) {
  std::vector<Buffer> inputs{std::move(input)};
  for (int peer = 1; peer < seat.size; ++peer) {
    Terms other;
    links_->receive(peer, &other, sizeof other);
    require_same(terms, other, peer);
    inputs.emplace_back(given(terms, {{}, peer, seat.size}) * size_of(terms.type));
    links_->receive(peer, inputs.back().data(), inputs.back().size());
  }
  const Buffer all = combine(terms, inputs);
  const auto part = [&](int rank) {
    const std::size_t bytes = gotten(terms, {{}, rank, seat.size}) * size_of(terms.type);
    const std::size_t offset =
        terms.collective == Collective::kReduceScatter ? bytes * static_cast<std::size_t>(rank) : 0;
    return std::pair(all.data() + offset, bytes);
  };
  for (int peer = 1; peer < seat.size; ++peer) {
    const auto [from, bytes] = part(peer);
    links_->send(peer, from, bytes);
  }
  const auto [from, bytes] = part(0);
  return Buffer(from, from + bytes);
}

// Every rank hears of all, and finds out by itself who is in its part.
NcclResult Comm::split(int color, int key, std::optional<Seat>& part) {
  const std::array<std::int32_t, 2> mine = {color, key};
  Terms terms;
  terms.collective = Collective::kSplit;
  terms.type = kNcclInt32;
  terms.count = mine.size();
  Buffer input(sizeof mine);
  std::memcpy(input.data(), mine.data(), sizeof mine);
  Buffer all;
  try {
    all = exchange(terms, std::move(input));
  } catch (const Aborted&) {
    return kNcclSystemError;
  }
  std::vector<std::array<std::int32_t, 2>> said(ranks(seat));
  std::memcpy(said.data(), all.data(), all.size());
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int rank = 0; rank < seat.size; ++rank)
    if (said[static_cast<std::size_t>(rank)][0] == color)
      members.emplace_back(said[static_cast<std::size_t>(rank)][1], rank);
  const std::string name =
      seat.name + ".s" + std::to_string(parts_++) + "." + std::to_string(color);
  if (color == kNcclNoColor) return kNcclSuccess;
  std::sort(members.begin(), members.end());
  const auto found = std::find(members.begin(), members.end(), std::pair(key, seat.rank));
  part = Seat{name, static_cast<int>(found - members.begin()), static_cast<int>(members.size())};
  return kNcclSuccess;
}

Seat Comm::shrink(const std::vector<int>& excluded) {
  Seat rest{seat.name + ".k" + std::to_string(parts_++), 0, 0};
  for (int rank = 0; rank < seat.size; ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) != excluded.end()) continue;
    if (rank < seat.rank) ++rest.rank;
    ++rest.size;
  }
  return rest;
}

}  // namespace echelon::standin
