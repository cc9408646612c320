// SPDX-License-Identifier: Apache-2.0
// The command line of tune. Everything else is in tools/tune/.
#include "tools/tune.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
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

void measure(const tune::Settings& settings) {
  unsetenv("ECHELON_TUNING");
  unsetenv("ECHELON_ALGORITHM");
  run_subcommand("tune", [&] { tune::run(settings); });
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

void add_tune(CLI::App& app) {
  const auto settings = std::make_shared<tune::Settings>();
  tune::Settings& s = *settings;
  s.range.min_bytes = 4;
  CLI::App* const tune = app.add_subcommand("tune",
                                            "Try the plans that stand a chance on the ranks it is "
                                            "started with, and write down the quickest");
  tune->footer(kExamples);
  tune->add_option("-o,--output", s.output, "File for ECHELON_TUNING; without it only the table")
      ->option_text("FILE");
  add_parsed<std::vector<ech_collective>>(*tune, "-C,--collective", s.collectives, collectives)
      ->description("Collectives, separated by commas, or all of " + perf::collective_words() +
                    " but barrier [all]");
  add_parsed<std::size_t>(*tune, "-b,--minbytes", s.range.min_bytes, perf::required_bytes)
      ->description("Smallest size, rounded up to a power of two [4]");
  add_parsed<std::size_t>(*tune, "-e,--maxbytes", s.range.max_bytes, perf::required_bytes)
      ->description("Largest size [64 MiB]");
  tune->add_option("-f,--stepfactor", s.range.factor, "Factor from size to size")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  add_parsed<double>(*tune, "--time", s.seconds, parse_seconds)
      ->description("Seconds for all, about: large sizes get more of them [120]");
  tune->add_option("--within", s.within,
                   "Leave out plans predicted at more than so many times the best; 0: none")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  add_parsed(*tune, "--format", s.json, one_of<bool>({{"text", false}, {"json", true}}))
      ->description("text or json, one object per line [text]");
  tune->callback([settings] { measure(*settings); });
}

}  // namespace echelon::tools
