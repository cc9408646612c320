// SPDX-License-Identifier: Apache-2.0
// The command line of plan. The work is done in tools/plan_report.cc.
#include "tools/plan.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/base/file.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "tools/command_line.h"
#include "tools/perf/settings.h"
#include "tools/perf/words.h"
#include "tools/plan_report.h"

namespace echelon::tools {
namespace {

constexpr const char* kExamples =
    "examples:\n"
    "  echelon plan --fabric fabrics/dgx-a100.toml -n 64\n"
    "  echelon plan --fabric fabrics/summit.toml -n 16200 -b 1M -e 1G -f 4 --rejected\n";

struct PlanOptions {
  std::string fabric_file;
  std::string tuning_file;
  int ranks = 0;
  ech_collective collective = ECH_ALLREDUCE;
  ech_dtype dtype = ECH_FLOAT32;
  perf::Settings range;
  std::string algorithm;
  std::string format = "text";
  bool rejected = false;
};

PlanQuestion question_of(const PlanOptions& options) {
  PlanQuestion question;
  question.ranks = options.ranks;
  question.collective = options.collective;
  question.dtype = options.dtype;
  question.algorithm = options.algorithm;
  question.rejected = options.rejected;
  if (!options.tuning_file.empty())
    question.tuning = parse_tuning(read_file(options.tuning_file), options.tuning_file);
  try {
    question.sizes = perf::sizes(options.range);
  } catch (const std::invalid_argument& e) {
    throw CLI::ValidationError(e.what());
  }
  return question;
}

// A file that only overrides says something of this machine.
Fabric load(const std::string& path) {
  const FabricFile file = load_fabric_file(path);
  Fabric fabric = expand(file);
  if (!fabric.hosts.empty()) return fabric;
  fabric.hosts.push_back(discover_host());
  apply(file, fabric);
  return fabric;
}

void run(const PlanOptions& options) {
  const PlanQuestion question = question_of(options);
  const Fabric fabric = load(options.fabric_file);
  const bool json = options.format == "json";
  fmt::print("{}", json ? plan_json(fabric, question) : plan_text(fabric, question));
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto options = std::make_shared<PlanOptions>();
  PlanOptions& o = *options;
  o.range.factor = 4;
  o.range.end_at_max = true;
  CLI::App* const plan =
      app.add_subcommand("plan", "Show what would be chosen on the machines of a fabric file");
  plan->footer(kExamples);
  plan->add_option("--fabric", o.fabric_file, "Fabric file, TOML or JSON")->required();
  plan->add_option("--tuning", o.tuning_file, "What echelon tune has written on such machines")
      ->option_text("FILE");
  plan->add_option("-n,--ranks", o.ranks, "Ranks (0: as many as the fabric has)")
      ->check(CLI::Range(0, kMostPlannedRanks))
      ->capture_default_str();
  add_parsed<ech_collective>(*plan, "-C,--collective", o.collective, perf::parse_collective)
      ->description("One of " + perf::collective_words() + " [allreduce]");
  add_parsed<ech_dtype>(*plan, "-d,--datatype,--dtype", o.dtype, perf::parse_dtype)
      ->description("Type of the elements, one of " + perf::dtype_words() + " [f32]");
  add_parsed<std::size_t>(*plan, "-b,--minbytes", o.range.min_bytes, perf::required_bytes)
      ->description("Smallest size [8]");
  add_parsed<std::size_t>(*plan, "-e,--maxbytes", o.range.max_bytes, perf::required_bytes)
      ->description("Largest size [64 MiB]");
  plan->add_option("-f,--stepfactor", o.range.factor, "Factor from size to size")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  plan->add_option("--algorithm", o.algorithm, "Plan to use, e.g. native/ring@1MiB")
      ->option_text("PLAN");
  plan->add_option("--format", o.format, "Output format")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  plan->add_flag("--rejected", o.rejected, "Show the other candidates too");
  plan->callback([options] { run(*options); });
}

}  // namespace echelon::tools
