// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/run/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <regex.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "tools/cluster/process.h"

namespace echelon::test {
namespace {

std::string text_of(int fd) {
  std::string out;
  char buffer[65536];
  ssize_t n = 0;
  while ((n = pread(fd, buffer, sizeof buffer, static_cast<off_t>(out.size()))) > 0) {
    out.append(buffer, static_cast<std::size_t>(n));
  }
  return out;
}

}  // namespace

std::string program() {
  const char* path = std::getenv("ECHELON_PROGRAM");
  return path != nullptr ? path : "echelon";
}

Result run_program(const std::vector<std::string>& argv, const std::string& input,
                   std::chrono::seconds limit) {
  const Fd in = cluster::text_file(input), out = cluster::text_file(""),
           err = cluster::text_file("");
  cluster::Command command;
  command.argv = argv;
  command.in = in.get();
  command.out = out.get();
  command.err = err.get();
  const pid_t pid = cluster::spawn(command);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << argv[0] << " ran past " << limit.count() << " s";
      kill(pid, SIGKILL);
    }
    usleep(1000);
  }
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return {code, text_of(out.get()), text_of(err.get())};
}

Result echelon_run(std::vector<std::string> args, const std::string& input) {
  args.insert(args.begin(), {program(), "run"});
  return run_program(args, input);
}

TempScript::TempScript(const std::string& text) : path_(testing::TempDir() + "echelon-XXXXXX") {
  const Fd fd(mkostemp(path_.data(), O_CLOEXEC));
  cluster::write_file(path_, text);
  chmod(path_.c_str(), 0755);
}

TempScript::~TempScript() { unlink(path_.c_str()); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  std::string line;
  while (std::getline(in, line)) out.push_back(line);
  std::sort(out.begin(), out.end());
  return out;
}

bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0)
    throw std::invalid_argument("not a regular expression: " + pattern);
  const bool found = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return found;
}

}  // namespace echelon::test
