// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tools/perf/words.h"

namespace echelon::perf {
namespace {

constexpr std::byte kSpoiled{0x5b};

}  // namespace

Buffers buffers_for(std::span<const Case> cases, int ranks, BufferKind kind) {
  std::size_t send = 0, recv = 0;
  for (const Case& c : cases) {
    const std::size_t sent = send_elements(c, ranks) * size_of(c.dtype);
    const std::size_t received = recv_elements(c, ranks) * size_of(c.dtype);
    send = std::max(send, c.in_place ? 0 : sent);
    recv = std::max(recv, c.in_place ? std::max(sent, received) : received);
  }
  return {send, recv, kind};
}

Trial::Trial(const Comm& comm, Buffers& buffers, const Case& what)
    : comm_(comm), buffers_(buffers), case_(what), values_(what.dtype, what.op, comm.size()) {}

bool Trial::has_input() const {
  return case_.collective != ECH_BROADCAST || case_.root == comm_.rank();
}

bool Trial::has_result() const {
  return case_.collective != ECH_REDUCE || case_.root == comm_.rank();
}

// In place both sides lie in the receive buffer, one of them possibly as a part of the other.
void Trial::place() {
  const std::size_t width = size_of(case_.dtype);
  const std::size_t send = send_elements(case_, comm_.size()) * width;
  const std::size_t recv = recv_elements(case_, comm_.size()) * width;
  const std::size_t offset = case_.offset * width;
  if (!case_.in_place) {
    send_ = buffers_.send.place(send, offset);
    recv_ = buffers_.recv.place(recv, offset);
    return;
  }
  const std::span<std::byte> both = buffers_.recv.place(std::max(send, recv), offset);
  const std::size_t block = has_parts(case_.collective) ? comm_.rank() * case_.count * width : 0;
  send_ = both.subspan(case_.collective == ECH_ALLGATHER ? block : 0, send);
  recv_ = both.subspan(case_.collective == ECH_REDUCE_SCATTER ? block : 0, recv);
}

Table Trial::input_table(int rank) const {
  return Table(case_.dtype, send_elements(case_, comm_.size()),
               [=, this](std::size_t i) { return values_.input(rank, i); });
}

Table Trial::result_table() const {
  return Table(case_.dtype, send_elements(case_, comm_.size()),
               [this](std::size_t i) { return values_.reduced(i); });
}

void Trial::prepare() {
  place();
  std::ranges::fill(recv_, kSpoiled);
  if (has_input()) input_table(comm_.rank()).fill(send_, 0);
  upload();
}

void Trial::prepare_inexact() {
  place();
  std::ranges::fill(recv_, kSpoiled);
  fill_inexact(case_.dtype, comm_.rank(), send_);
  upload();
}

void Trial::upload() {
  buffers_.recv.upload();
  if (!case_.in_place) buffers_.send.upload();
}

void Trial::fetch() const {
  buffers_.recv.download();
  if (!case_.in_place) buffers_.send.download();
}

std::string Trial::title() const {
  return fmt::format("{} {} {} of {} elements{}", name(case_.collective), name(case_.dtype),
                     name(case_.op), case_.count, case_.in_place ? " in place" : "");
}

void Trial::note(Verdict& verdict, std::uint64_t wrong, const std::string& what) const {
  if (wrong != 0 && verdict.wrong == 0)
    verdict.first = fmt::format("rank {}: {}: {}", comm_.rank(), title(), what);
  verdict.wrong += wrong;
}

void Trial::judge_result(Verdict& verdict) const {
  const std::size_t width = size_of(case_.dtype);
  const auto compare = [&](const Table& table, std::span<const std::byte> data, std::size_t first) {
    std::size_t at = 0;
    const std::uint64_t wrong = table.mismatches(data, first, &at);
    if (wrong == 0) return;
    const std::size_t element = (data.data() - recv_.data()) / width + at;
    note(verdict, wrong,
         fmt::format("element {} is {}, expected {}", element, text(case_.dtype, &data[at * width]),
                     text(case_.dtype, table.element(first + at).data())));
  };
  if (case_.collective == ECH_ALLGATHER) {
    const std::size_t block = case_.count * width;
    for (int r = 0; r < comm_.size(); ++r)
      compare(input_table(r), recv_.subspan(r * block, block), 0);
  } else if (case_.collective == ECH_BROADCAST) {
    compare(input_table(case_.root), recv_, 0);
  } else {
    const bool part = case_.collective == ECH_REDUCE_SCATTER;
    compare(result_table(), recv_, part ? comm_.rank() * case_.count : 0);
  }
}

void Trial::judge_input(Verdict& verdict) const {
  std::size_t at = 0;
  const std::uint64_t wrong = input_table(comm_.rank()).mismatches(send_, 0, &at);
  note(verdict, wrong, fmt::format("input element {} was changed", at));
}

Verdict Trial::judge() const {
  Verdict verdict;
  if (case_.collective == ECH_BARRIER) return verdict;
  fetch();
  if (has_result() && !recv_.empty()) judge_result(verdict);
  if (has_input() && !case_.in_place && !send_.empty()) judge_input(verdict);
  const std::size_t guards =
      buffers_.recv.damaged_guards() + (case_.in_place ? 0 : buffers_.send.damaged_guards());
  note(verdict, guards, fmt::format("{} bytes beside the buffers were written", guards));
  return verdict;
}

std::uint64_t Trial::result_checksum() const {
  fetch();
  return checksum_here();
}

std::uint64_t Trial::checksum_here() const {
  const bool common = case_.collective == ECH_ALLREDUCE || case_.collective == ECH_ALLGATHER ||
                      case_.collective == ECH_BROADCAST;
  return common ? checksum(recv_) : 0;
}

std::uint64_t Trial::verify() const {
  const Verdict mine = judge();
  if (mine.wrong != 0) fmt::print(stderr, "echelon perf: {}\n", mine.first);
  const bool same = comm_.same_everywhere(checksum_here());
  const auto wrong = static_cast<std::uint64_t>(comm_.sum(static_cast<double>(mine.wrong)));
  if (wrong == 0 && !same && comm_.leader())
    fmt::print(stderr, "echelon perf: {}: the ranks' results differ\n", title());
  return wrong == 0 && !same ? 1 : wrong;
}

}  // namespace echelon::perf
