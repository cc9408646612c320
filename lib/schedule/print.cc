// SPDX-License-Identifier: Apache-2.0
#include "lib/schedule/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/join.h"
#include "lib/schedule/machine.h"
#include "lib/schedule/verify.h"

namespace echelon {
namespace {

std::string line(const GroupCall& call) {
  std::string out = fmt::format("  {} ({})", name(call.action), joined(call.group.ranks(), " "));
  for (const Part& part : call.parts) {
    out += fmt::format(" [{},{})", part.slice.begin, part.slice.end);
    if (call.action != GroupAction::kAllreduce) out += fmt::format("@{}", part.owner);
  }
  return out;
}

std::string line(const Transfer& t) {
  return fmt::format("  {}{}{} [{},{})", t.from, t.action == Action::kCopy ? "->" : "=>", t.to,
                     t.slice.begin, t.slice.end);
}

// A letter per input, "*" for all, "." for none; inputs that are there twice appear twice.
std::string letters(const Machine& machine, Expression value) {
  if (value == kNothing) return ".";
  if (machine.expressions().complete(value)) return "*";
  std::string out;
  const auto& counts = machine.expressions().counts(value);
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    out += std::string(counts[rank], static_cast<char>('a' + rank));
  return out;
}

// One block of a picture: a line per interval, each cell as wide as the block's widest.
std::vector<std::string> memory(const Machine& machine, int size) {
  std::vector<std::vector<std::string>> cells(machine.cuts().count());
  std::size_t width = 1;
  for (std::size_t i = 0; i < cells.size(); ++i)
    for (int rank = 0; rank < size; ++rank) {
      cells[i].push_back(letters(machine, machine.at(rank, i)));
      width = std::max(width, cells[i].back().size());
    }
  std::vector<std::string> lines;
  for (const std::vector<std::string>& row : cells) {
    lines.emplace_back();
    for (const std::string& cell : row) lines.back() += fmt::format(" {:>{}}", cell, width);
  }
  return lines;
}

// Puts a titled block to the right of what is there.
void append(std::vector<std::string>& page, const std::string& title,
            std::vector<std::string> block) {
  block.insert(block.begin(), " " + title);
  std::size_t width = 0;
  for (const std::string& l : block) width = std::max(width, l.size());
  page.resize(block.size());
  for (std::size_t i = 0; i < block.size(); ++i)
    page[i] += fmt::format("{:<{}}   ", block[i], width);
}

// The page with a column of units before it, and rows that are alike made one.
std::string with_units(const std::vector<std::string>& page, const Cuts& cuts) {
  std::vector<std::pair<Slice, std::string>> rows;
  for (std::size_t i = 0; i < cuts.count(); ++i) {
    const bool again = !rows.empty() && rows.back().second == page[i + 1];
    if (!again) rows.emplace_back(cuts.slice(i), page[i + 1]);
    rows.back().first.end = cuts.slice(i).end;
  }
  std::size_t width = 5;
  for (const auto& [slice, row] : rows)
    width = std::max(width, fmt::format("{}-{}", slice.begin, slice.end - 1).size());
  const auto line = [width](std::string label, const std::string& row) {
    std::string out = fmt::format("{:<{}}  {}", label, width, row);
    return out.erase(out.find_last_not_of(' ') + 1) + "\n";
  };
  std::string out = line("units", page[0]);
  for (const auto& [slice, row] : rows)
    out += line(slice.size() == 1 ? fmt::format("{}", slice.begin)
                                  : fmt::format("{}-{}", slice.begin, slice.end - 1),
                row);
  return out;
}

}  // namespace

std::string table(const Schedule& schedule) {
  std::vector<std::string> lines(schedule.steps());
  for (const GroupCall& call : schedule.calls()) lines[call.step] += line(call);
  for (const Transfer& t : schedule.transfers()) lines[t.step] += line(t);
  std::string out = fmt::format("{} units, {} steps\n", schedule.units(), schedule.steps());
  auto phase = schedule.phases().begin();
  for (int step = 0; step < schedule.steps(); ++step) {
    for (; phase != schedule.phases().end() && phase->begin <= step; ++phase)
      out += phase->name + "\n";
    out += fmt::format("  step {}{}\n", step, lines[step]);
  }
  return out;
}

std::string picture(const Schedule& schedule, ech_collective collective, int size, int root) {
  if (size > 26) return "more than 26 ranks\n";
  if (std::string fault = verify(schedule, collective, size, root); !fault.empty())
    return fault + "\n";
  Machine machine(schedule, collective, size, root);
  std::vector<std::string> page;
  append(page, "start", memory(machine, size));
  while (!machine.done()) {
    const int step = machine.step();
    machine.advance();
    append(page, fmt::format("step {}", step), memory(machine, size));
  }
  return with_units(page, machine.cuts());
}

std::string json(const Schedule& schedule) {
  using Json = nlohmann::ordered_json;
  Json out = {{"units", schedule.units()}, {"steps", schedule.steps()}};
  for (const char* key : {"phases", "transfers", "calls"}) out[key] = Json::array();
  for (const Phase& p : schedule.phases())
    out["phases"].push_back(
        {{"name", p.name}, {"tier", p.tier}, {"begin", p.begin}, {"end", p.end}});
  for (const Transfer& t : schedule.transfers())
    out["transfers"].push_back({{"step", t.step},
                                {"from", t.from},
                                {"to", t.to},
                                {"begin", t.slice.begin},
                                {"end", t.slice.end},
                                {"action", t.action == Action::kCopy ? "copy" : "reduce"}});
  for (const GroupCall& call : schedule.calls()) {
    Json parts = Json::array();
    for (const Part& p : call.parts)
      parts.push_back({{"begin", p.slice.begin}, {"end", p.slice.end}, {"owner", p.owner}});
    out["calls"].push_back({{"step", call.step},
                            {"action", name(call.action)},
                            {"group", call.group.ranks()},
                            {"parts", std::move(parts)}});
  }
  return out.dump();
}

}  // namespace echelon
