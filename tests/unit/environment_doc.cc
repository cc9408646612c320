// SPDX-License-Identifier: Apache-2.0
// Prints the table of settings as docs/environment.md shows it, or checks that it shows it.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "lib/options.h"

namespace echelon {
namespace {

std::string cell(std::string_view text) {
  std::string escaped;
  for (char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string table() {
  std::string text = "| variable | value | default | meaning |\n|---|---|---|---|\n";
  for (const OptionRow& row : option_table()) {
    text += "| `" + std::string(row.variable) + "` | " + cell(row.type) + " | " +
            cell(row.fallback) + " | " + cell(row.help) + " |\n";
  }
  return text;
}

bool holds_table(const char* path) {
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return text.find("\n" + table() + "\n") != std::string::npos;
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  if (argc == 1) {
    std::cout << echelon::table();
    return EXIT_SUCCESS;
  }
  if (echelon::holds_table(argv[1])) return EXIT_SUCCESS;
  std::cerr << argv[1] << ": the table differs from what this program prints without arguments\n";
  return EXIT_FAILURE;
}
