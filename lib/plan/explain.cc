// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/dtype.h"
#include "lib/plan/choose.h"

namespace echelon {
namespace {

constexpr std::size_t kShownCandidates = 5;

nlohmann::ordered_json as_json(const Candidate& c) {
  return {{"plan", to_text(c.recipe)},       {"predicted_us", c.prediction.seconds * 1e6},
          {"rounds", c.prediction.rounds},   {"segments_under_way", c.prediction.under_way},
          {"busiest", c.prediction.busiest}, {"busiest_bytes", c.prediction.busiest_load}};
}

nlohmann::ordered_json as_json(const AssumedLink& assumed) {
  const Link& link = assumed.link;
  nlohmann::ordered_json j = {{"where", assumed.where},
                              {"kind", name(link.kind)},
                              {"bytes_per_second", link.bytes_per_second},
                              {"source", name(link.source)},
                              {"latency_us", link.latency * 1e6},
                              {"latency_source", name(link.latency_source)}};
  if (assumed.together == 0) return j;
  j["child_bytes_per_second"] = assumed.together;
  j["child_source"] = name(assumed.together_source);
  return j;
}

// "  host: nvlink 450000 MB/s (device), 10.00 us (default)", and what a child has in all.
std::string as_text(const AssumedLink& assumed) {
  const Link& link = assumed.link;
  std::string text = fmt::format("  {}: {} {:.6g} MB/s ({}), {:.4g} us ({})", assumed.where,
                                 name(link.kind), link.bytes_per_second / 1e6, name(link.source),
                                 link.latency * 1e6, name(link.latency_source));
  if (assumed.together > 0)
    text += fmt::format(", each part {:.6g} MB/s ({})", assumed.together / 1e6,
                        name(assumed.together_source));
  return text + "\n";
}

}  // namespace

std::string explain_text(const Choice& choice) {
  std::string text = fmt::format(
      "{} of {}: {}\n  predicted {:.1f} us, bound {:.1f} us ({})\n  because {}\n",
      name(choice.collective), bytes_text(static_cast<std::size_t>(choice.bytes)),
      choice.best.recipe.algorithms.empty() ? "nothing to do" : to_text(choice.best.recipe),
      choice.best.prediction.seconds * 1e6, choice.bound.seconds * 1e6, choice.bound.reason,
      choice.reason);
  for (const AssumedLink& link : choice.links) text += as_text(link);
  if (!choice.joint_call.empty())
    text += fmt::format("  no call over all ranks: {}\n", choice.joint_call);
  double least = choice.best.quickest;
  for (const Candidate& c : choice.rejected) least = std::min(least, c.quickest);
  for (std::size_t i = 0; i < std::min(kShownCandidates, choice.rejected.size()); ++i) {
    const Candidate& c = choice.rejected[i];
    text += fmt::format("  rejected {:<40} {:.1f} us{}\n", to_text(c.recipe),
                        c.prediction.seconds * 1e6,
                        c.quickest <= choice.alike * least ? ", as good" : "");
  }
  return text;
}

std::string explain_json(const Choice& choice) {
  nlohmann::ordered_json j = as_json(choice.best);
  j["collective"] = name(choice.collective);
  j["bytes"] = choice.bytes;
  j["bound_us"] = choice.bound.seconds * 1e6;
  j["bound_reason"] = choice.bound.reason;
  j["reason"] = choice.reason;
  for (const AssumedLink& link : choice.links) j["links"].push_back(as_json(link));
  for (const Candidate& c : choice.rejected) j["rejected"].push_back(as_json(c));
  if (!choice.joint_call.empty()) j["no_call_over_all_ranks"] = choice.joint_call;
  return j.dump();
}

}  // namespace echelon
