// SPDX-License-Identifier: Apache-2.0
// Prints a Markdown file with its pictures of schedules made anew. A line
//   <!-- picture COLLECTIVE SHAPE ALGORITHM... -->   (or "table" instead of "picture")
//   <!-- rails SHAPE -->
// is followed by a fenced block that shows the schedule, or the hosts' divisions. SHAPE is the
// ranks per host, "4" or "3+1+2", ALGORITHM one per tier. With --check: prints nothing, and fails
// where the file differs.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>
#include <string>

#include "algorithms/division.h"
#include "lib/base/error.h"
#include "lib/base/join.h"
#include "lib/schedule/print.h"
#include "tests/unit/schedule/shapes.h"

namespace echelon {
namespace {

std::vector<std::vector<Group>> parse_shape(const std::string& text) {
  std::vector<int> hosts;
  std::istringstream in(text);
  for (std::string count; std::getline(in, count, '+');) hosts.push_back(std::stoi(count));
  if (hosts.size() == 1) return tiers({hosts});
  return tiers({hosts, {static_cast<int>(hosts.size())}});
}

// The parts as labelled boxes; a unit is three characters wide.
std::string boxes(const std::vector<std::pair<Slice, std::string>>& parts) {
  std::string out;
  for (const auto& [slice, label] : parts)
    out += fmt::format("|{:^{}}", label, 3 * slice.size() - 1);
  return out + "|\n";
}

// How every host divides the buffer, and the rails that this makes.
std::string draw_rails(const std::string& shape) {
  const Tiers tree(parse_shape(shape), parse_shape(shape).back()[0].size());
  Unit units = 1;
  for (int host = 0; host < tree.groups(0); ++host)
    units = std::lcm(units, static_cast<Unit>(tree.group(0, host).size()));
  const Divisions divisions(tree, {0, units}, Ownership::kSplit, Divisions::kNoLeader);
  std::string out;
  for (int host = 0; host < tree.groups(0); ++host) {
    const Group& ranks = tree.group(0, host);
    std::vector<std::pair<Slice, std::string>> parts;
    for (int i = 0; i < ranks.size(); ++i)
      parts.emplace_back(Slice{0, units}.part(i, ranks.size()), std::to_string(ranks[i]));
    out += fmt::format("host {}  {}", host, boxes(parts));
  }
  std::vector<std::pair<Slice, std::string>> rails;
  for (const Rail& rail : divisions.rails(1, 0))
    for (const Slice s : rail.slices) rails.emplace_back(s, joined(rail.owners.ranks(), ""));
  std::ranges::sort(rails, {}, [](const auto& r) { return r.first.begin; });
  return out + "rails   " + boxes(rails);
}

// "picture COLLECTIVE SHAPE ALGORITHM..." or "rails SHAPE"
std::string draw(std::istringstream request) {
  std::string kind, collective_name, shape;
  request >> kind >> collective_name >> shape;
  if (kind == "rails") return draw_rails(collective_name);
  std::vector<Algorithm> algorithms;
  for (std::string word; request >> word && word != "-->";)
    if (const auto algorithm = parse_algorithm(word)) algorithms.push_back(*algorithm);
  const auto collective = parse_collective(collective_name);
  const auto groups = parse_shape(shape);
  if (!collective || algorithms.size() != groups.size())
    throw invalid("bad picture: " + request.str());
  const Composition what = composition(*collective, groups, algorithms);
  const Schedule s = compose(what);
  return kind == "table" ? table(s) : picture(s, *collective, what.size);
}

bool is_request(const std::string& line) {
  return line.starts_with("<!-- picture ") || line.starts_with("<!-- table ") ||
         line.starts_with("<!-- rails ");
}

// `in` with the block after every request replaced.
std::string redraw(std::istream& in) {
  std::string out;
  for (std::string line; std::getline(in, line);) {
    out += line + "\n";
    if (!is_request(line)) continue;
    out += "```text\n" + draw(std::istringstream(line.substr(5))) + "```\n";
    int fences = 0;
    while (fences < 2 && std::getline(in, line))
      if (line.starts_with("```")) ++fences;
  }
  return out;
}

int run(const std::string& path, bool check) {
  std::ifstream file(path);
  std::ostringstream before;
  before << file.rdbuf();
  std::istringstream in(before.str());
  const std::string after = redraw(in);
  if (!check) std::cout << after;
  if (!check || (after == before.str() && after.find("<!-- picture") != std::string::npos))
    return 0;
  std::cerr << path
            << ": pictures differ from what the program prints; run schedule_pictures on it\n";
  return 1;
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string(argv[1]) == "--check";
  if (argc != 2 && !check) {
    std::cerr << "usage: schedule_pictures [--check] FILE.md\n";
    return EXIT_FAILURE;
  }
  try {
    return echelon::run(argv[argc - 1], check);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return EXIT_FAILURE;
  }
}
