// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/perf/report.h"
#include "tools/perf/words.h"

namespace echelon::tune {
namespace {

constexpr std::string_view kColumns = "{:<14} {:>9}  {:<34} {:>9}  {:<34} {:>9} {:>6} {:>6}\n";

double rounded(double value) { return std::round(value * 1e3) / 1e3; }

}  // namespace

const TimedRecipe& kept(const Verdict& v) { return v.regret() < kWorthIt ? v.model : v.best; }

std::string header(bool json) {
  if (json) return "";
  return fmt::format(fmt::runtime(kColumns), "collective", "size", "the model's choice", "time(us)",
                     "the best plan", "time(us)", "ratio", "tried");
}

std::string line(const Verdict& v, bool json) {
  if (json)
    return nlohmann::ordered_json{{"collective", perf::name(v.collective)},
                                  {"bytes", v.bytes},
                                  {"model", to_text(v.model.recipe)},
                                  {"model_us", rounded(v.model.seconds * 1e6)},
                                  {"best", to_text(v.best.recipe)},
                                  {"best_us", rounded(v.best.seconds * 1e6)},
                                  {"samples", v.samples},
                                  {"tried", v.tried}}
               .dump() +
           "\n";
  return fmt::format(fmt::runtime(kColumns), perf::name(v.collective), perf::bytes_text(v.bytes),
                     to_text(v.model.recipe), perf::time_text(v.model.seconds * 1e6),
                     to_text(v.best.recipe), perf::time_text(v.best.seconds * 1e6),
                     fmt::format("{:.2f}", v.regret()), v.tried);
}

std::string summary(const std::vector<Verdict>& verdicts) {
  constexpr double kGood = 1.1;
  if (verdicts.empty()) return "";
  const auto good =
      std::ranges::count_if(verdicts, [](const Verdict& v) { return v.regret() <= kGood; });
  const Verdict& worst = *std::ranges::max_element(verdicts, {}, &Verdict::regret);
  return fmt::format(
      "# the model's choice is within 10 % of the best plan in {} of {} cases, at worst {:.2f} x\n",
      good, verdicts.size(), worst.regret());
}

}  // namespace echelon::tune
