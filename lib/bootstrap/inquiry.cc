// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/inquiry.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lib/base/join.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Name = std::function<std::string(int)>;

constexpr std::size_t kMostNames = 4;

std::string names_of(const std::vector<int>& ranks, const Name& name) {
  if (ranks.size() > kMostNames) return rank_list(ranks);
  std::vector<std::string> names;
  for (int rank : ranks) names.push_back(name(rank));
  return joined(names, ", ");
}

// The earliest call in which somebody still is.
std::optional<std::uint64_t> earliest_running(const std::vector<Snapshot>& reports) {
  std::optional<std::uint64_t> earliest;
  for (const Snapshot& report : reports)
    if (const EnteredCall* call = report.oldest_running())
      earliest = std::min(earliest.value_or(call->sequence), call->sequence);
  return earliest;
}

// The ranks that entered a call, by what they entered; those of the largest camp first.
struct Camp {
  Signature signature;
  std::vector<int> ranks;
};

std::vector<Camp> camps_of(const std::vector<Snapshot>& reports, std::uint64_t sequence) {
  std::vector<Camp> camps;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const EnteredCall* call = reports[rank].find(sequence);
    if (call == nullptr) continue;
    auto camp = std::ranges::find(camps, call->signature, &Camp::signature);
    if (camp == camps.end()) camp = camps.insert(camp, {call->signature, {}});
    camp->ranks.push_back(static_cast<int>(rank));
  }
  std::ranges::stable_sort(camps, std::greater(), [](const Camp& c) { return c.ranks.size(); });
  return camps;
}

std::string entered(const Camp& camp, const Signature& other) {
  const bool same_call =
      camp.signature.kind == other.kind && camp.signature.collective == other.collective;
  return same_call ? "with " + difference(camp.signature, other) : camp.signature.name();
}

std::string mismatch_text(std::uint64_t sequence, const std::vector<Camp>& camps,
                          const Name& name) {
  const Camp& most = camps[0];
  std::vector<std::string> parts;
  for (std::size_t c = 1; c < camps.size() && c <= kMostNames; ++c)
    parts.push_back(fmt::format("{} entered {}", names_of(camps[c].ranks, name),
                                entered(camps[c], most.signature)));
  const bool same_call = camps[1].signature.kind == most.signature.kind &&
                         camps[1].signature.collective == most.signature.collective;
  const std::string others =
      most.ranks.size() == 1 ? name(most.ranks[0]) : fmt::format("{} others", most.ranks.size());
  return fmt::format("{} #{}: {}, {} {}", same_call ? most.signature.name() : "call", sequence,
                     joined(parts, ", "), others, entered(most, camps[1].signature));
}

std::string waiting_text(std::uint64_t sequence, const std::vector<Snapshot>& reports,
                         const Name& name) {
  std::vector<int> absent;
  std::string label;
  int last = -1;  // of those inside, the one that is least far
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const EnteredCall* call = reports[rank].find(sequence);
    if (call == nullptr && reports[rank].entered <= sequence) {
      absent.push_back(static_cast<int>(rank));
    } else if (call != nullptr && call->running) {
      label = call->signature.label(sequence);
      if (last < 0 || call->ended < reports[last].find(sequence)->ended)
        last = static_cast<int>(rank);
    }
  }
  if (absent.empty())
    return fmt::format("{}: every rank has entered it; {} is {}", label, name(last),
                       reports[last].text());
  std::string where;
  if (absent.size() == 1) where = fmt::format("; it is {}", reports[absent[0]].text());
  return fmt::format("{}: waiting for {}{}", label, names_of(absent, name), where);
}

}  // namespace

Comparison compare(const std::vector<Snapshot>& reports, const Name& name) {
  Comparison result;
  const std::optional<std::uint64_t> sequence = earliest_running(reports);
  if (!sequence) return result;
  const std::vector<Camp> camps = camps_of(reports, *sequence);
  if (camps.size() > 1) result.mismatch = mismatch_text(*sequence, camps, name);
  result.waiting = waiting_text(*sequence, reports, name);
  return result;
}

void Inquiry::complain(Time now) {
  if (under_way() || (ended_ && now < *ended_ + kAgain)) return;
  began_ = now;
  asked_ = {};
  ++number_;
  std::ranges::fill(answers_, std::nullopt);
}

bool Inquiry::ask(Time now) {
  if (!under_way() || now < asked_ + kAgain) return false;
  asked_ = now;
  return true;
}

void Inquiry::answer(int rank, std::uint64_t number, Snapshot snapshot) {
  if (under_way() && number == number_) answers_[rank] = std::move(snapshot);
}

std::vector<int> Inquiry::silent(Time now) const {
  std::vector<int> ranks;
  if (!under_way() || now < *began_ + limit_) return ranks;
  for (std::size_t rank = 0; rank < answers_.size(); ++rank)
    if (!answers_[rank]) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::optional<std::vector<Snapshot>> Inquiry::conclude(Time now) {
  if (!under_way() || !std::ranges::all_of(answers_, [](const auto& a) { return a.has_value(); }))
    return std::nullopt;
  std::vector<Snapshot> reports;
  for (auto& answer : answers_) reports.push_back(std::move(*answer));
  began_.reset();
  ended_ = now;
  return reports;
}

}  // namespace echelon
