// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace echelon::test {
namespace {

constexpr std::size_t kMostElements = 1 << 17;
constexpr std::size_t kMostRanks = 8;
constexpr std::size_t kRequests = 4;

enum Kind { kAllreduce, kReduceScatter, kReduce, kCopies, kPending, kSameBits, kPart, kBarrier };
constexpr int kKinds = kBarrier + 1;

}  // namespace

Calls::Calls()
    : in_(kMostElements * kMostRanks * sizeof(double), 1),
      out_(kMostElements * kMostRanks * sizeof(double), 1) {}

void Calls::begin(std::uint64_t seed, std::vector<int> ids, int self) {
  random_.seed(seed);
  self_ = static_cast<std::size_t>(std::ranges::find(ids, self) - ids.begin());
  ids_ = std::move(ids);
}

Calls::Draw Calls::draw() {
  const auto below = [this](std::size_t n) { return random_() % n; };
  Draw d{};
  d.kind = static_cast<int>(below(kKinds));
  d.root = static_cast<int>(below(ids_.size()));
  d.count = 1 + below(std::size_t{1} << (1 + below(17)));  // small ones as often as large ones
  constexpr ech_dtype kTypes[] = {ECH_FLOAT32, ECH_FLOAT64, ECH_INT32, ECH_INT64};
  d.dtype = kTypes[below(4)];
  constexpr ech_op kOps[] = {ECH_SUM, ECH_MAX, ECH_MIN};
  d.op = kOps[below(3)];
  salt_ = static_cast<int>(below(1000));
  return d;
}

// Small whole numbers: their sums are exact in every type.
int Calls::element(std::size_t rank, std::size_t i) const {
  return static_cast<int>(
      (i * 7 + static_cast<std::size_t>(ids_[rank]) * 3 + static_cast<std::size_t>(salt_)) % 101);
}

template <typename T>
void Calls::fill(std::size_t count) {
  T* in = reinterpret_cast<T*>(in_.data());
  for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<T>(element(self_, i));
  std::fill_n(reinterpret_cast<T*>(out_.data()), count, static_cast<T>(-1));
}

template <typename T>
T Calls::expected(ech_op op, std::size_t i) const {
  int result = element(0, i);
  for (std::size_t r = 1; r < ids_.size(); ++r) {
    const int next = element(r, i);
    result = op == ECH_SUM   ? result + next
             : op == ECH_MAX ? std::max(result, next)
                             : std::min(result, next);
  }
  return static_cast<T>(result);
}

ech_status Calls::fail(std::string what) {
  wrong_ = std::move(what);
  return ECH_ERR_INTERNAL;
}

template <typename T>
ech_status Calls::judge(ech_status status, const Draw& draw, std::size_t first, const char* name) {
  if (status != ECH_OK) return status;
  const T* out = reinterpret_cast<const T*>(out_.data());
  for (std::size_t i = 0; i < draw.count; ++i) {
    const T wanted = expected<T>(draw.op, first + i);
    if (std::memcmp(&out[i], &wanted, sizeof(T)) != 0)
      return fail(fmt::format("{} of {} type {} op {}, {} ranks: element {} is {}, not {}", name,
                              draw.count, int(draw.dtype), int(draw.op), ids_.size(), i, out[i],
                              wanted));
  }
  return ECH_OK;
}

template <typename T>
ech_status Calls::pending(ech_comm* comm, const Draw& draw) {
  ech_request* requests[kRequests] = {};
  const std::size_t share = draw.count / kRequests;
  for (std::size_t k = 0; k < kRequests; ++k) {
    const std::size_t at = k * share * sizeof(T);
    const ech_status status = ech_iallreduce(&in_[at], &out_[at], share, draw.dtype, draw.op, comm,
                                             nullptr, &requests[k]);
    if (status == ECH_OK) continue;
    ech_wait_all(kRequests, requests);
    return status;
  }
  Draw whole = draw;
  whole.count = kRequests * share;
  return judge<T>(ech_wait_all(kRequests, requests), whole, 0, "iallreduce");
}

template <typename T>
ech_status Calls::call(ech_comm* comm, const Draw& draw) {
  const std::size_t n = draw.count;
  const bool scatters = draw.kind == kReduceScatter;
  fill<T>(scatters ? n * ids_.size() : n);
  const char* in = in_.data();
  char* out = out_.data();
  if (draw.kind == kPending) return pending<T>(comm, draw);
  if (scatters)
    return judge<T>(ech_reduce_scatter(in, out, n, draw.dtype, draw.op, comm), draw, self_ * n,
                    "reduce_scatter");
  if (draw.kind == kAllreduce)
    return judge<T>(ech_allreduce(in, out, n, draw.dtype, draw.op, comm), draw, 0, "allreduce");
  const ech_status status = ech_reduce(in, out, n, draw.dtype, draw.op, draw.root, comm);
  return static_cast<int>(self_) == draw.root ? judge<T>(status, draw, 0, "reduce") : status;
}

ech_status Calls::copies(ech_comm* comm, const Draw& draw) {
  fill<std::int32_t>(draw.count * ids_.size());
  const auto* out = reinterpret_cast<const std::int32_t*>(out_.data());
  ech_status status = ech_allgather(in_.data(), out_.data(), draw.count, ECH_INT32, comm);
  if (status != ECH_OK) return status;
  for (std::size_t r = 0; r < ids_.size(); ++r)
    for (std::size_t i = 0; i < draw.count; ++i)
      if (out[r * draw.count + i] != element(r, i))
        return fail(fmt::format("allgather of {}: element {} of rank {} is {}", draw.count, i, r,
                                out[r * draw.count + i]));
  status = ech_broadcast(in_.data(), out_.data(), draw.count, ECH_INT32, draw.root, comm);
  if (status != ECH_OK) return status;
  for (std::size_t i = 0; i < draw.count; ++i)
    if (out[i] != element(static_cast<std::size_t>(draw.root), i))
      return fail(fmt::format("broadcast of {}: element {} is {}", draw.count, i, out[i]));
  return ECH_OK;
}

// Sums that are not exact have the same bits everywhere all the same.
ech_status Calls::same_bits(ech_comm* comm, const Draw& draw) {
  auto* in = reinterpret_cast<float*>(in_.data());
  auto* out = reinterpret_cast<float*>(out_.data());
  for (std::size_t i = 0; i < draw.count; ++i) in[i] = std::sqrt(1.f + float(element(self_, i)));
  ech_status status = ech_allreduce(in, out, draw.count, ECH_FLOAT32, ECH_SUM, comm);
  if (status != ECH_OK) return status;
  std::int64_t mine = 0, most[2] = {};
  for (std::size_t i = 0; i < draw.count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &out[i], sizeof bits);
    mine = (mine * 31 + bits) % 1'000'000'007;
  }
  const std::int64_t both[2] = {mine, -mine};
  status = ech_allreduce(both, most, 2, ECH_INT64, ECH_MAX, comm);
  if (status == ECH_OK && most[0] != -most[1])
    return fail(fmt::format("sum of {} has other bits on another rank", draw.count));
  return status;
}

// A communicator of every second rank. What fails in it is a failure of the part; whether it is one
// of the whole, the next call tells.
ech_status Calls::part(ech_comm* comm, const Draw& draw) {
  ech_comm* half = nullptr;
  const int rank = static_cast<int>(self_);
  if (ech_comm_split(comm, rank % 2, -rank, &half) != ECH_OK) return ECH_OK;
  const std::int64_t mine = 1 + salt_ + rank;
  std::int64_t sum = 0, wanted = 0;
  for (std::size_t r = self_ % 2; r < ids_.size(); r += 2) wanted += 1 + salt_ + std::int64_t(r);
  const ech_status status = ech_allreduce(&mine, &sum, 1, ECH_INT64, ECH_SUM, half);
  ech_comm_destroy(half);
  if (status == ECH_OK && sum != wanted)
    return fail(fmt::format("sum over a part is {}, not {} (root {})", sum, wanted, draw.root));
  return ECH_OK;
}

ech_status Calls::next(ech_comm* comm) {
  const Draw d = draw();
  ++made_;
  if (d.kind == kBarrier) return ech_barrier(comm);
  if (d.kind == kCopies) return copies(comm, d);
  if (d.kind == kSameBits) return same_bits(comm, d);
  if (d.kind == kPart) return part(comm, d);
  if (d.dtype == ECH_FLOAT32) return call<float>(comm, d);
  if (d.dtype == ECH_FLOAT64) return call<double>(comm, d);
  if (d.dtype == ECH_INT32) return call<std::int32_t>(comm, d);
  return call<std::int64_t>(comm, d);
}

}  // namespace echelon::test
