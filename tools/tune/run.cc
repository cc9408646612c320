// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "lib/fabric/formats.h"
#include "lib/tuning/tuning.h"
#include "tools/perf/progress.h"
#include "tools/perf/report.h"
#include "tools/perf/table.h"
#include "tools/perf/words.h"
#include "tools/tune/candidates.h"
#include "tools/tune/contest.h"
#include "tools/tune/report.h"
#include "tools/tune/shared_memory.h"

namespace echelon::tune {
namespace {

using Clock = std::chrono::steady_clock;
using perf::Comm;
using perf::Failure;

constexpr double kLeastWeight = 2e-3;     // s; what a cell costs besides its operations
constexpr double kForTrying = 0.4;        // of a cell's time
constexpr double kForSharedMemory = 0.1;  // of all time

// One operation, and what the model says of it.
struct Cell {
  perf::Case what;
  std::size_t above = 0, bytes = 0;
  perf::Plan plan;

  double weight() const { return plan.predicted_us.value_or(0) * 1e-6 + kLeastWeight; }
};

// A row holds from where the one before ends; the first one for its class of sizes.
std::vector<Cell> cells_of(const Comm& comm, const Settings& settings) {
  std::vector<Cell> cells;
  for (ech_collective collective : settings.collectives) {
    std::size_t last = 0;
    const int parts = perf::has_parts(collective) ? comm.size() : 1;
    const std::size_t least = std::bit_ceil(std::size_t{4} * parts);  // an element for each
    for (std::size_t size : perf::sizes(settings.range)) {
      const std::size_t bytes = std::bit_ceil(std::max(size, least));
      if (bytes == last) continue;
      Cell cell;
      cell.what.collective = collective;
      cell.what.count = perf::count_for(bytes, cell.what, comm.size());
      cell.above = last != 0 ? last : bytes == least ? 0 : bytes / 2;
      cell.bytes = last = bytes;
      cell.plan = comm.explain(cell.what);
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

PredictedRecipe predicted(const std::string& plan, double us) {
  return {parse_recipe(plan), us * 1e-6};
}

// The model's choice first. On one host it has only one while nobody asks for messages.
std::vector<Recipe> recipes_of(const Arena& arena, const Cell& cell, double factor) {
  arena.forced.set_algorithm("");
  const perf::Plan plan = arena.forced.explain(cell.what);
  std::vector<PredictedRecipe> all{predicted(plan.name, plan.predicted_us.value_or(0))};
  for (const perf::PredictedPlan& other : plan.others)
    all.push_back(predicted(other.name, other.us));
  std::vector<Recipe> recipes{parse_recipe(cell.plan.name)};
  for (const PredictedRecipe& p : within(std::move(all), factor)) recipes.push_back(p.recipe);
  return recipes;
}

class Run {
 public:
  Run(const Arena& arena, const Settings& settings, Clock::time_point begin)
      : arena_(arena), settings_(settings), begin_(begin), progress_(arena.plain.leader()) {}

  // The rows that were measured.
  std::vector<TunedPlan> all() {
    const std::vector<Cell> cells = cells_of(arena_.plain, settings_);
    std::vector<perf::Case> cases;
    for (const Cell& cell : cells) cases.push_back(cell.what);
    perf::Buffers buffers = perf::buffers_for(cases, arena_.plain.size(), {});
    double weights = 0;
    for (const Cell& cell : cells) weights += cell.weight();
    say(header(settings_.json));
    for (const Cell& cell : cells) {
      const double left = settings_.seconds - arena_.plain.max(passed());
      if (left <= 0) break;
      measure(cell, buffers, left * cell.weight() / weights);
      weights -= cell.weight();
    }
    finish(cells.size());
    return rows_;
  }

 private:
  double passed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  void say(const std::string& text) const {
    if (!arena_.plain.leader()) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  void measure(const Cell& cell, perf::Buffers& buffers, double seconds) {
    progress_.show(fmt::format("{} of {}, {:.0f} of {:.0f} s ...", perf::name(cell.what.collective),
                               perf::bytes_text(cell.bytes), passed(), settings_.seconds));
    perf::Trial trial(arena_.forced, buffers, cell.what);
    trial.prepare();
    Contest contest(arena_, trial, cell.bytes);
    contest.try_once(recipes_of(arena_, cell, settings_.within), kForTrying * seconds);
    contest.decide(seconds);
    add(cell, contest);
    progress_.clear();
    say(line(verdicts_.back(), settings_.json));
  }

  void add(const Cell& cell, const Contest& contest) {
    const auto timed = [](const Contestant& c) {
      return TimedRecipe{c.recipe, std::round(c.median() * 1e9) / 1e9};
    };
    const Contestant& best = contest.best();
    verdicts_.push_back({cell.what.collective, cell.bytes, timed(contest.model()), timed(best),
                         static_cast<int>(best.seconds.size()), contest.tried()});
    const Verdict& v = verdicts_.back();
    rows_.push_back({v.collective,
                     cell.above,
                     cell.bytes,
                     {kept(v).recipe, kept(v).seconds, v.model.recipe, v.model.seconds},
                     v.samples});
  }

  void finish(std::size_t cells) const {
    if (!settings_.json) say(summary(verdicts_));
    if (verdicts_.size() == cells || !arena_.plain.leader()) return;
    fmt::print(settings_.json ? stderr : stdout,
               "# time is up: {} of {} operations were measured; --time gives more\n",
               verdicts_.size(), cells);
  }

  const Arena arena_;
  const Settings& settings_;
  const Clock::time_point begin_;
  perf::Progress progress_;
  std::vector<Verdict> verdicts_;
  std::vector<TunedPlan> rows_;
};

// What the library will compute of the same communicator.
MachineKey key_of(const Comm& comm) {
  const int mine = comm.host();
  const std::string all = comm.gather({reinterpret_cast<const char*>(&mine), sizeof mine});
  std::vector<int> hosts(static_cast<std::size_t>(comm.size()));
  std::memcpy(hosts.data(), all.data(), all.size());
  const Fabric fabric = expand(parse_fabric_file(comm.fabric(ECH_JSON), "the fabric"));
  if (fabric.hosts.size() != static_cast<std::size_t>(comm.hosts()))
    throw Failure(
        "two hosts have one name, so a file cannot say on which machines it was measured");
  return machine_key(fabric, hosts);
}

// Written beside the file and then put in its place, which must be possible before hours pass.
class OutputFile {
 public:
  OutputFile(const Comm& comm, const std::string& path) : comm_(comm), path_(path) {
    std::string fault;
    if (comm.leader() && !path.empty()) fault = open();
    tell(fault);
  }

  ~OutputFile() {
    if (stream_.is_open()) std::remove((path_ + ".part").c_str());
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const std::string& text) {
    std::string fault;
    if (stream_.is_open()) {
      stream_ << text;
      stream_.close();
      const bool done =
          stream_.good() && std::rename((path_ + ".part").c_str(), path_.c_str()) == 0;
      if (done) return tell("");
      fault = fmt::format("-o {}: {}", path_, std::strerror(errno));
      std::remove((path_ + ".part").c_str());
    }
    tell(fault);
  }

 private:
  // Returns what is wrong. What is renamed would take the place of a link or a device, too.
  std::string open() {
    std::error_code error;
    const auto there = std::filesystem::symlink_status(path_, error);
    if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
      return fmt::format("-o {}: not a regular file", path_);
    stream_.open(path_ + ".part");
    return stream_ ? "" : fmt::format("-o {}: {}", path_, std::strerror(errno));
  }

  // All ranks say what rank 0 has found: the first one that ends takes the others along.
  void tell(std::string fault) const {
    constexpr std::size_t kLongest = 512;
    fault.resize(kLongest);
    const std::string first = comm_.gather(fault).substr(0, kLongest);
    if (first[0] != '\0') throw Failure(first.c_str());
  }

  const Comm& comm_;
  const std::string path_;
  std::ofstream stream_;
};

TunedSharedMemory shared_memory(const Comm& comm, const Settings& settings) {
  const double seconds = kForSharedMemory * settings.seconds;
  const MeasuredSharedMemory measured =
      measure_shared_memory(comm, settings.range.max_bytes, seconds);
  if (comm.leader() && !settings.json) fmt::print("{}", line(measured));
  return measured.ways;
}

}  // namespace

void run(const Settings& settings) {
  perf::sizes(settings.range);  // contradictions are found before anything is connected
  const Comm plain("");
  if (plain.size() == 1)
    throw std::invalid_argument("one rank has nothing to exchange: expected 2");
  OutputFile file(plain, settings.output);
  Tuning tuning;
  tuning.machine = key_of(plain);
  const Comm forced(plain, plain.hosts() == 1 ? "native" : "");
  if (plain.leader() && !settings.json)
    fmt::print("# {}, up to {:.0f} s{}\n", perf::shape_text(plain), settings.seconds,
               settings.within > 0
                   ? fmt::format("; plans predicted at more than {} x the best are left out",
                                 settings.within)
                   : "; all plans");
  const Clock::time_point begin = Clock::now();
  if (!settings.output.empty()) tuning.shared_memory = shared_memory(plain, settings);
  tuning.plans = Run({plain, forced}, settings, begin).all();
  file.write(to_toml(tuning));
}

}  // namespace echelon::tune
