// SPDX-License-Identifier: Apache-2.0
#include "lib/base/activity.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>

#include "lib/base/bytes.h"
#include "lib/base/dtype.h"
#include "lib/base/error.h"
#include "lib/base/join.h"

namespace echelon {
namespace {

constexpr std::uint64_t kEntries = 64;

enum State : std::uint64_t { kNone, kRunning, kEnded };

// A list has no root.
std::uint32_t packed_root(const Signature& s) {
  if (s.kind == Signature::kMany) return std::uint32_t{s.digest} << 16 | s.buffers;
  return static_cast<std::uint32_t>(s.root);
}

std::uint64_t packed(const Signature& s) {
  return std::uint64_t{s.kind} | std::uint64_t{s.cuda} << 7 | std::uint64_t{s.collective} << 8 |
         std::uint64_t{s.dtype} << 16 | std::uint64_t{s.op} << 24 |
         std::uint64_t{packed_root(s)} << 32;
}

Signature unpacked(std::uint64_t what, std::uint64_t count) {
  Signature s;
  s.kind = static_cast<Signature::Kind>(what & 0x7f);
  s.cuda = (what >> 7 & 1) != 0;
  s.collective = what >> 8 & 0xff;
  s.dtype = what >> 16 & 0xff;
  s.op = what >> 24 & 0xff;
  s.count = count;
  if (s.kind == Signature::kMany) {
    s.buffers = what >> 32 & 0xffff;
    s.digest = what >> 48 & 0xffff;
  } else {
    s.root = static_cast<std::int32_t>(what >> 32);
  }
  return s;
}

std::string_view name_of(ech_collective c) {
  return c <= ECH_BARRIER ? name(c) : std::string_view("an unknown call");
}

}  // namespace

// Invariant: whoever reads the same `head` before and after the other fields has read fields that
// belong together, for the writer takes the old head away before it changes them.
struct Activity::Entry {
  std::atomic<std::uint64_t> head;  // sequence * 4 + State
  std::atomic<std::uint64_t> what, count, progress;
};

bool Signature::is_valid() const {
  return kind <= kPlan && echelon::is_valid(static_cast<ech_collective>(collective)) &&
         echelon::is_valid(static_cast<ech_dtype>(dtype)) &&
         echelon::is_valid(static_cast<ech_op>(op));
}

std::string Signature::name() const {
  if (kind == kDestroy) return "destroy";
  if (kind == kSplit) return "split";
  if (kind == kStatistics) return "exchange of statistics";
  if (kind == kTimeline) return "exchange of timelines";
  if (kind == kPlan) return "set_algorithm";
  const std::string_view name = name_of(static_cast<ech_collective>(collective));
  return std::string(name) + (kind == kMany ? "_many" : "");
}

// The upper bits of a product mix all bits of the factors (Knuth, TAOCP 3, 6.4).
std::uint16_t Signature::fingerprint() const {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  const std::uint64_t mixed = packed(*this) * kGolden ^ (count + 1) * (kGolden << 1 | 1);
  return static_cast<std::uint16_t>((mixed ^ mixed >> 32) * kGolden >> 48);
}

std::string Signature::label(std::uint64_t sequence) const {
  return fmt::format("{} #{}", name(), sequence);
}

std::string difference(const Signature& mine, const Signature& theirs) {
  std::vector<std::string> parts;
  if (mine.count != theirs.count) parts.push_back(fmt::format("count {}", mine.count));
  if (mine.dtype != theirs.dtype)
    parts.push_back(fmt::format("type {}", name(static_cast<ech_dtype>(mine.dtype))));
  if (mine.op != theirs.op)
    parts.push_back(fmt::format("op {}", name(static_cast<ech_op>(mine.op))));
  if (mine.root != theirs.root) parts.push_back(fmt::format("root {}", mine.root));
  if (mine.buffers != theirs.buffers) parts.push_back(fmt::format("{} buffers", mine.buffers));
  if (mine.cuda != theirs.cuda) parts.push_back(mine.cuda ? "CUDA memory" : "host memory");
  if (mine.digest != theirs.digest && parts.empty())
    parts.push_back(fmt::format("counts and factors {:04x}", mine.digest));
  return joined(parts, " and ");
}

const EnteredCall* Snapshot::find(std::uint64_t sequence) const {
  const auto at = std::ranges::find(calls, sequence, &EnteredCall::sequence);
  return at == calls.end() ? nullptr : &*at;
}

const EnteredCall* Snapshot::oldest_running() const {
  const auto at = std::ranges::find(calls, true, &EnteredCall::running);
  return at == calls.end() ? nullptr : &*at;
}

std::string Snapshot::text() const {
  if (const EnteredCall* call = oldest_running()) {
    const std::string label = "in " + call->signature.label(call->sequence);
    if (call->segments <= 1) return label;
    return fmt::format("{}, segment {} of {}", label, call->ended + 1, call->segments);
  }
  if (calls.empty()) return "outside any call, it has made none";
  const EnteredCall& last = calls.back();
  return "outside any call, last in " + last.signature.label(last.sequence);
}

// Not more than one of them holds: what is left out is the oldest that nobody is in.
Snapshot merged(Snapshot one, const Snapshot& other) {
  one.entered = std::max(one.entered, other.entered);
  one.calls.insert(one.calls.end(), other.calls.begin(), other.calls.end());
  std::ranges::sort(one.calls, {}, &EnteredCall::sequence);
  while (one.calls.size() > kEntries) {
    const auto idle = std::ranges::find(one.calls, false, &EnteredCall::running);
    one.calls.erase(idle == one.calls.end() ? one.calls.end() - 1 : idle);
  }
  return one;
}

std::string encode_snapshot(const Snapshot& snapshot) {
  ByteWriter writer;
  writer.u64(snapshot.entered).u32(static_cast<std::uint32_t>(snapshot.calls.size()));
  for (const EnteredCall& call : snapshot.calls) {
    writer.u64(call.sequence).u64(packed(call.signature)).u64(call.signature.count);
    writer.u32(call.running ? 1 : 0).u32(call.segments).u32(call.ended);
  }
  return writer.take();
}

Snapshot decode_snapshot(std::string_view bytes) {
  ByteReader reader(bytes, "a rank's report");
  Snapshot snapshot;
  snapshot.entered = reader.u64();
  const std::uint32_t calls = reader.u32();
  if (calls > kEntries) throw Error(ECH_ERR_INTERNAL, "a rank's report is too long");
  for (std::uint32_t i = 0; i < calls; ++i) {
    EnteredCall call;
    call.sequence = reader.u64();
    const std::uint64_t what = reader.u64();
    call.signature = unpacked(what, reader.u64());
    call.running = reader.u32() != 0;
    call.segments = reader.u32();
    call.ended = reader.u32();
    const bool in_order = i == 0 || call.sequence > snapshot.calls.back().sequence;
    if (!in_order || !call.signature.is_valid())
      throw Error(ECH_ERR_INTERNAL, "a rank's report holds a call that there cannot be");
    snapshot.calls.push_back(call);
  }
  reader.expect_end();
  return snapshot;
}

Activity::Activity(std::span<std::byte> board) : board_(board) {
  static_assert(sizeof(Entry) * kEntries <= kBytes);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  if (!board.empty()) return;
  own_ = std::make_unique<std::byte[]>(kBytes);
  board_ = {own_.get(), kBytes};
}

Activity::Entry& Activity::entry(std::uint64_t sequence) {
  return reinterpret_cast<Entry*>(board_.data())[sequence % kEntries];
}

void Activity::begin(std::uint64_t sequence, const Signature& signature, std::uint32_t segments) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  Entry& e = entry(sequence);
  e.head.store(kNone, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  e.what.store(packed(signature), kRelaxed);
  e.count.store(signature.count, kRelaxed);
  e.progress.store(segments, kRelaxed);
  e.head.store(sequence * 4 + kRunning, std::memory_order_release);
}

void Activity::advance(std::uint64_t sequence, std::uint32_t ended) {
  Entry& e = entry(sequence);
  if (e.head.load(std::memory_order_relaxed) != sequence * 4 + kRunning) return;  // a newer call's
  const std::uint32_t segments = static_cast<std::uint32_t>(e.progress.load());
  e.progress.store(std::uint64_t{ended} << 32 | segments, std::memory_order_relaxed);
}

void Activity::plan(std::uint64_t sequence, std::uint32_t segments) {
  Entry& e = entry(sequence);
  if (e.head.load(std::memory_order_relaxed) != sequence * 4 + kRunning) return;  // a newer call's
  e.progress.store(segments, std::memory_order_relaxed);
}

void Activity::end(std::uint64_t sequence) {
  Entry& e = entry(sequence);
  if (e.head.load(std::memory_order_relaxed) == sequence * 4 + kRunning)
    e.head.store(sequence * 4 + kEnded, std::memory_order_release);
}

Snapshot Activity::read(std::span<const std::byte> board) {
  assert(board.size() >= kBytes);
  const Entry* entries = reinterpret_cast<const Entry*>(board.data());
  Snapshot snapshot;
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    const Entry& e = entries[i];
    const std::uint64_t head = e.head.load(std::memory_order_acquire);
    const Signature signature =
        unpacked(e.what.load(std::memory_order_relaxed), e.count.load(std::memory_order_relaxed));
    const std::uint64_t progress = e.progress.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (head % 4 == kNone || e.head.load(std::memory_order_relaxed) != head) continue;
    snapshot.calls.push_back({head / 4, signature, head % 4 == kRunning,
                              static_cast<std::uint32_t>(progress),
                              static_cast<std::uint32_t>(progress >> 32)});
  }
  std::ranges::sort(snapshot.calls, {}, &EnteredCall::sequence);
  if (!snapshot.calls.empty()) snapshot.entered = snapshot.calls.back().sequence + 1;
  return snapshot;
}

}  // namespace echelon
