// SPDX-License-Identifier: Apache-2.0
// The command line of tune. Everything else is in tools/tune/.
#include "tools/tune.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "tools/command_line.h"
#include "tools/perf.h"
#include "tools/perf/words.h"
#include "tools/tune/run.h"

namespace echelon::tools {
namespace {

constexpr const char* kExamples =
    "examples:\n"
    "  echelon run -n 4 -- echelon tune -o tuning.toml\n"
    "  echelon run --hosts a:8,b:8 -- echelon tune -C allreduce -e 256M --time 600 -o tuning.toml\n"
    "  ECHELON_TUNING=tuning.toml echelon run --hosts a:8,b:8 -- ./program\n"
    "ECHELON_TUNING and ECHELON_ALGORITHM have no influence on what is measured.\n"
    "docs/plans.md says how it is measured and what the file holds.\n";

int measure(const tune::Settings& settings) {
  unsetenv("ECHELON_TUNING");
  unsetenv("ECHELON_ALGORITHM");
  return run_subcommand("tune", [&] { tune::run(settings); });
}

std::vector<ech_collective> collectives(const std::string& text) {
  std::vector<ech_collective> all = perf::parse_collectives(text);
  if (text == "all") std::erase(all, ECH_BARRIER);
  if (std::ranges::count(all, ECH_BARRIER) > 0)
    throw std::invalid_argument("a barrier is done as the smallest allreduce is: tune that");
  std::vector<ech_collective> once;
  for (ech_collective c : all)
    if (std::ranges::count(once, c) == 0) once.push_back(c);
  return once;
}

}  // namespace

void add_tune(Program& program) {
  const auto settings = std::make_shared<tune::Settings>();
  tune::Settings& s = *settings;
  s.range.min_bytes = 4;
  Command tune = program.command("tune",
                                 "Try the plans that stand a chance on the ranks it is started "
                                 "with, and write down the quickest");
  tune.option("-o,--output FILE", "File for ECHELON_TUNING; without it only the table",
              into(s.output));
  tune.option("-C,--collective NAMES",
              "Collectives, separated by commas, or all of " + perf::collective_words() +
                  " but barrier [all]",
              into<std::vector<ech_collective>>(s.collectives, collectives));
  tune.option("-b,--minbytes SIZE", "Smallest size, rounded up to a power of two [4]",
              into<std::size_t>(s.range.min_bytes, perf::required_bytes));
  tune.option("-e,--maxbytes SIZE", "Largest size [64 MiB]",
              into<std::size_t>(s.range.max_bytes, perf::required_bytes));
  tune.option("-f,--stepfactor N", fmt::format("Factor from size to size [{}]", s.range.factor),
              whole_number(s.range.factor, 2, 1 << 20));
  tune.option("--time SECONDS", "For all, about: large sizes get more of them [120]",
              into<double>(s.seconds, parse_seconds));
  tune.option("--within FACTOR",
              fmt::format("Leave out plans predicted at more than so many times the best; 0: none "
                          "[{}]",
                          s.within),
              number(s.within, 0.0, 1e9));
  tune.option("--format text|json", "text, or json: one object per line [text]",
              into(s.json, one_of<bool>({{"text", false}, {"json", true}})));
  tune.examples(kExamples);
  tune.action([settings] { return measure(*settings); });
}

}  // namespace echelon::tools
