// SPDX-License-Identifier: Apache-2.0
// The command line of plan. The work is done in tools/plan_report.cc.
#include "tools/plan.h"

#include <fmt/format.h>

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
    throw UsageError(e.what());
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

void add_plan(Program& program) {
  const auto options = std::make_shared<PlanOptions>();
  PlanOptions& o = *options;
  o.range.factor = 4;
  o.range.end_at_max = true;
  Command plan =
      program.command("plan", "Show what would be chosen on the machines of a fabric file");
  plan.option("--fabric FILE", "Fabric file, TOML or JSON", into(o.fabric_file)).required();
  plan.option("--tuning FILE", "What echelon tune has written on such machines",
              into(o.tuning_file));
  plan.option("-n,--ranks N", "Ranks (0: as many as the fabric has) [0]",
              whole_number(o.ranks, 0, kMostPlannedRanks));
  plan.option("-C,--collective NAME", "One of " + perf::collective_words() + " [allreduce]",
              into<ech_collective>(o.collective, perf::parse_collective));
  plan.option("-d,--datatype,--dtype TYPE",
              "Type of the elements, one of " + perf::dtype_words() + " [f32]",
              into<ech_dtype>(o.dtype, perf::parse_dtype));
  plan.option("-b,--minbytes SIZE", "Smallest size [8]",
              into<std::size_t>(o.range.min_bytes, perf::required_bytes));
  plan.option("-e,--maxbytes SIZE", "Largest size [64 MiB]",
              into<std::size_t>(o.range.max_bytes, perf::required_bytes));
  plan.option("-f,--stepfactor N", "Factor from size to size [4]",
              whole_number(o.range.factor, 2, 1 << 20));
  plan.option("--algorithm PLAN", "Plan to use, e.g. native/ring@1MiB", into(o.algorithm));
  plan.option("--format text|json", "Output format [text]", one_word(o.format, {"text", "json"}));
  plan.flag("--rejected", "Show the other candidates too", o.rejected);
  plan.examples(kExamples);
  plan.action([options] {
    run(*options);
    return 0;
  });
}

}  // namespace echelon::tools
