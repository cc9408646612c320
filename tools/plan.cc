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

#include "lib/base/dtype.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
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
  int ranks = 0;
  std::string collective = "allreduce";
  std::string dtype = "f32";
  std::string smallest = "8";
  std::string largest = "64M";
  int factor = 4;
  std::string algorithm;
  std::string format = "text";
  bool rejected = false;
};

// Throws CLI::ValidationError unless `value` holds something.
template <typename T>
T expect(const std::optional<T>& value, const std::string& option, const std::string& text) {
  if (!value) throw CLI::ValidationError(option, fmt::format("\"{}\" is not known", text));
  return *value;
}

PlanQuestion question_of(const PlanOptions& options) {
  PlanQuestion question;
  question.ranks = options.ranks;
  question.collective =
      expect(parse_collective(options.collective), "--collective", options.collective);
  question.dtype = expect(parse_dtype(options.dtype), "--dtype", options.dtype);
  question.algorithm = options.algorithm;
  question.rejected = options.rejected;
  perf::Settings range;
  range.min_bytes = expect(perf::parse_bytes(options.smallest), "--minbytes", options.smallest);
  range.max_bytes = expect(perf::parse_bytes(options.largest), "--maxbytes", options.largest);
  range.factor = options.factor;
  range.end_at_max = true;
  try {
    question.sizes = perf::sizes(range);
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
  CLI::App* const plan =
      app.add_subcommand("plan", "Show what would be chosen on the machines of a fabric file");
  plan->footer(kExamples);
  plan->add_option("--fabric", o.fabric_file, "Fabric file, TOML or JSON")->required();
  plan->add_option("-n,--ranks", o.ranks, "Ranks (0: as many as the fabric has)")
      ->check(CLI::Range(0, kMostPlannedRanks))
      ->capture_default_str();
  plan->add_option("-C,--collective", o.collective, "Collective")->capture_default_str();
  plan->add_option("-d,--dtype", o.dtype, "Type of the elements")->capture_default_str();
  plan->add_option("-b,--minbytes", o.smallest, "Smallest size")->capture_default_str();
  plan->add_option("-e,--maxbytes", o.largest, "Largest size")->capture_default_str();
  plan->add_option("-f,--stepfactor", o.factor, "Factor from size to size")
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
