// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/dtype.h"
#include "lib/base/error.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/quantity.h"
#include "lib/tuning/tuning.h"

namespace echelon {
namespace {

constexpr double kMostBytes = 0x1p50;
constexpr double kMostSamples = 1e9;

template <typename T>
T required(TableReader& table, std::string_view key, std::optional<T> value) {
  if (!value) table.fail(key, "missing", "what echelon tune writes there");
  return *value;
}

std::size_t bytes_in(TableReader& table, std::string_view key, double least) {
  return static_cast<std::size_t>(required(table, key, table.integer(key, least, kMostBytes)));
}

double time_in(TableReader& table, std::string_view key) {
  return required(table, key, table.parsed(key, "a time such as \"212.4 us\"", parse_time));
}

Recipe recipe_in(TableReader& table, std::string_view key) {
  const std::string text = required(table, key, table.text(key));
  try {
    return parse_recipe(text);
  } catch (const Error& e) {
    table.fail(key, printable(e.what()), "a plan such as \"native/ring@1MiB\"");
  }
}

ech_collective collective_in(TableReader& table) {
  constexpr std::string_view kKey = "collective";
  return required(table, kKey,
                  table.parsed(kKey, "allreduce, reduce_scatter, allgather, broadcast or reduce",
                               [](std::string_view text) {
                                 const auto parsed = parse_collective(text);
                                 return parsed == ECH_BARRIER ? std::nullopt : parsed;
                               }));
}

TunedPlan plan_in(TableReader& table) {
  TunedPlan p;
  p.collective = collective_in(table);
  p.above = bytes_in(table, "above", 0);
  p.up_to = bytes_in(table, "up_to", static_cast<double>(p.above) + 1);
  p.plan.recipe = recipe_in(table, "plan");
  p.plan.seconds = time_in(table, "time");
  p.plan.model = recipe_in(table, "model");
  p.plan.model_seconds = time_in(table, "model_time");
  p.samples =
      static_cast<int>(required(table, "samples", table.integer("samples", 1, kMostSamples)));
  return p;
}

// Where those of one collective overlap, nobody could tell which holds.
void add(TableReader& table, const TunedPlan& plan, std::vector<TunedPlan>& plans) {
  const auto before = std::find_if(plans.rbegin(), plans.rend(), [&](const TunedPlan& p) {
    return p.collective == plan.collective;
  });
  if (before != plans.rend() && plan.above < before->up_to)
    table.fail(
        "above", fmt::format("{}", plan.above),
        fmt::format("at least {}, where the {} before ends", before->up_to, name(plan.collective)));
  plans.push_back(plan);
}

MachineKey machine_in(TableReader& table) {
  MachineKey key;
  for (std::size_t i = 0; i < MachineKey::kNames.size(); ++i)
    key.texts[i] = required(table, MachineKey::kNames[i], table.text(MachineKey::kNames[i]));
  return key;
}

constexpr std::string_view kSharedMemory = "shared_memory";
constexpr std::string_view kNever = "never";

std::optional<std::size_t> parse_threshold(std::string_view text) {
  if (text == kNever) return TunedSharedMemory::kNever;
  const std::optional<std::uint64_t> bytes = parse_size(text);
  if (!bytes || static_cast<double>(*bytes) > kMostBytes) return std::nullopt;
  return static_cast<std::size_t>(*bytes);
}

// A letter for each size: not known, the usual way, the other one.
constexpr std::string_view kFindings = ".-+";

std::optional<std::uint64_t> parse_findings(std::string_view text) {
  std::uint64_t out = 0;
  if (text.size() != TunedSharedMemory::kSizes) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto found = kFindings.find(text[i]);
    if (found == kFindings.npos) return std::nullopt;
    out |= std::uint64_t{found} << 2 * i;
  }
  return out;
}

std::string findings_text(std::uint64_t found) {
  std::string out;
  for (int i = 0; i < TunedSharedMemory::kSizes; ++i)
    out += kFindings[std::min<std::size_t>(found >> 2 * i & 3, kFindings.size() - 1)];
  return out;
}

constexpr int kBitsOfCalls = 2 * TunedSharedMemory::kSizes;

std::uint64_t findings_in(TableReader& table) {
  std::uint64_t out = 0;
  int at = 0;
  for (std::string_view calls : TunedSharedMemory::kCalls) {
    const std::optional<std::uint64_t> found =
        table.parsed(calls, "a letter for each of 8 sizes, \".\", \"-\" or \"+\"", parse_findings);
    out |= found.value_or(0) << at;
    at += kBitsOfCalls;
  }
  return out;
}

Document findings_document(std::uint64_t found) {
  Document d = Document::table();
  for (std::string_view calls : TunedSharedMemory::kCalls) {
    d.add(std::string(calls), Document::of(findings_text(found)));
    found >>= kBitsOfCalls;
  }
  return d;
}

TunedSharedMemory shared_memory_in(TableReader& table) {
  TunedSharedMemory out;
  for (const TunedSharedMemory::Key& key : TunedSharedMemory::kKeys)
    out.*key.value =
        table.parsed(key.name, "a size such as \"64 KiB\", or \"never\"", parse_threshold);
  for (const TunedSharedMemory::TriedKey& key : TunedSharedMemory::kTriedKeys)
    table.one(key.name, [&](TableReader& calls) { out.*key.found = findings_in(calls); });
  return out;
}

Document as_document(const TunedSharedMemory& tuned) {
  Document d = Document::table();
  for (const TunedSharedMemory::Key& key : TunedSharedMemory::kKeys) {
    const std::optional<std::size_t>& bytes = tuned.*key.value;
    if (!bytes) continue;
    const bool never = *bytes == TunedSharedMemory::kNever;
    d.add(std::string(key.name), Document::of(never ? std::string(kNever) : format_size(*bytes)));
  }
  for (const TunedSharedMemory::TriedKey& key : TunedSharedMemory::kTriedKeys)
    if (tuned.*key.found != 0) d.add(std::string(key.name), findings_document(tuned.*key.found));
  return d;
}

Document as_document(const TunedPlan& p) {
  Document d = Document::table();
  d.add("collective", Document::of(std::string(name(p.collective))));
  d.add("above", Document::of(static_cast<double>(p.above)));
  d.add("up_to", Document::of(static_cast<double>(p.up_to)));
  d.add("plan", Document::of(to_text(p.plan.recipe)));
  d.add("time", Document::of(format_time(p.plan.seconds)));
  d.add("model", Document::of(to_text(p.plan.model)));
  d.add("model_time", Document::of(format_time(p.plan.model_seconds)));
  d.add("samples", Document::of(static_cast<double>(p.samples)));
  return d;
}

}  // namespace

Tuning parse_tuning(std::string_view text, std::string_view file) {
  const Document document = parse_toml(text, file);
  TableReader table(document, std::string(file), "");
  required(table, "version", table.integer("version", kTuningVersion, kTuningVersion));
  Tuning tuning;
  table.one("machine", [&](TableReader& machine) { tuning.machine = machine_in(machine); });
  if (!table.has("machine")) table.fail("machine", "missing", "a table");
  table.one(kSharedMemory,
            [&](TableReader& ways) { tuning.shared_memory = shared_memory_in(ways); });
  table.each("plan", [&](TableReader& row) { add(row, plan_in(row), tuning.plans); });
  table.finish();
  return tuning;
}

std::string to_toml(const Tuning& tuning) {
  Document document = Document::table();
  document.add("version", Document::of(double{kTuningVersion}));
  Document machine = Document::table();
  for (std::size_t i = 0; i < MachineKey::kNames.size(); ++i)
    machine.add(std::string(MachineKey::kNames[i]), Document::of(tuning.machine.texts[i]));
  document.add("machine", std::move(machine));
  if (tuning.shared_memory != TunedSharedMemory{})
    document.add(std::string(kSharedMemory), as_document(tuning.shared_memory));
  Document plans = Document::list();
  for (const TunedPlan& plan : tuning.plans) plans.add(as_document(plan));
  document.add("plan", std::move(plans));
  return write_toml(document);
}

}  // namespace echelon
