// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without a fuzzer: on every seed of a folder, on the empty input, and on
// mutations of the seeds, always the same ones, for two seconds at most. When the target dies the
// input is printed as hexadecimal bytes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kMutations = 5000;
constexpr std::chrono::seconds kTime(2);

std::string current;  // the input under test, for the signal handler

void print_input(int signal_number) {
  static const char kDigits[] = "0123456789abcdef";
  for (const char c : current) {
    const auto byte = static_cast<unsigned char>(c);
    const char text[2] = {kDigits[byte >> 4], kDigits[byte & 15]};
    if (::write(STDERR_FILENO, text, 2) != 2) break;
  }
  if (::write(STDERR_FILENO, "\n", 1) != 1) ::_exit(1);
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void run(const std::string& input) {
  current = input;
  // An exact allocation, so that a sanitizer sees the first byte read beyond it.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<std::string> read_seeds(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string next() {
    std::string input = seeds_[below(seeds_.size())];
    for (std::size_t n = 1 + below(4); n > 0; --n) mutate(input);
    return input;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void mutate(std::string& s) {
    const std::size_t at = below(s.size()), length = below(s.size() - at + 1);
    const std::string& other = seeds_[below(seeds_.size())];
    switch (below(7)) {
      case 0:
        flip_bit(s, at);
        break;
      case 1:
        s.insert(at, 1, static_cast<char>(random_()));
        break;
      case 2:
        s.erase(at, length);
        break;
      case 3:
        s.insert(at, s.substr(at, length));
        break;
      case 4:
        s.resize(at);
        break;
      case 5:
        s = s.substr(0, at) + other.substr(below(other.size()));
        break;
      default:
        fill(s, at, std::min<std::size_t>(length, 8));
        break;
    }
  }

  void flip_bit(std::string& s, std::size_t at) {
    if (!s.empty()) s[at] = static_cast<char>(s[at] ^ 1 << below(8));
  }

  // The ends of ranges: lengths and numbers that are easy to get wrong.
  void fill(std::string& s, std::size_t at, std::size_t length) {
    static const char kEnds[] = {'\x00', '\xff', '\x7f', '\x80', '9', '-', '"', '{'};
    s.replace(at, length, std::string(length, kEnds[below(sizeof kEnds)]));
  }

  std::vector<std::string> seeds_;
  std::mt19937 random_{20240229};
};

int replay(const char* folder) {
  const std::vector<std::string> seeds = read_seeds(folder);
  if (seeds.empty()) {
    fmt::print(stderr, "{} has no seeds\n", folder);
    return 1;
  }
  run("");
  for (const std::string& seed : seeds) run(seed);
  Mutator mutator(seeds);
  const auto end = std::chrono::steady_clock::now() + kTime;
  int n = 0;
  for (; n < kMutations && std::chrono::steady_clock::now() < end; ++n) run(mutator.next());
  fmt::print("{} seeds, {} mutations\n", seeds.size(), n);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FOLDER_OF_SEEDS\n", argv[0]);
    return 2;
  }
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    std::signal(signal_number, print_input);
  return replay(argv[1]);
}
