// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/isolated.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "lib/base/error.h"
#include "lib/base/fd.h"
#include "lib/fabric/formats.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit{20};
constexpr char kHost = 'h', kError = 'e';
constexpr const char* kNoName = "unnamed";

// The child: its answer is one byte that says what follows, then the text. Never returns.
[[noreturn]] void answer(int pipe, const std::function<Host()>& make) {
  // The program's own handlers, which may print or wait, are not for this.
  for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) ::signal(fault, SIG_DFL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (const int null = ::open("/dev/null", O_WRONLY); null >= 0) ::dup2(null, STDERR_FILENO);
  std::string text;
  try {
    Host host = make();
    if (host.name.empty()) host.name = kNoName;
    text = kHost + to_wire(host);
  } catch (const std::exception& e) {
    text = kError + std::string(e.what());
  }
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(pipe, text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  ::_exit(0);
}

// Everything until the other end closes or time is up.
std::string read_all(int pipe) {
  const Clock::time_point end = Clock::now() + kLimit;
  std::string text;
  std::array<char, 65536> block;
  while (text.size() <= kMostWireBytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd wait{pipe, POLLIN, 0};
    const int ready = left.count() > 0 ? ::poll(&wait, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return "";
    const ssize_t n = ::read(pipe, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(n));
  }
  return text;
}

void end_child(pid_t child) {
  ::kill(child, SIGKILL);  // harmless when it has ended: it is not reaped yet
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Host make_isolated(std::string_view what, const std::function<Host()>& make) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw system_error("pipe2");
  const Fd from(ends[0]);
  Fd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) throw system_error("fork");
  if (child == 0) answer(to.get(), make);
  to = Fd();
  const std::string text = read_all(from.get());
  end_child(child);
  if (text.empty()) throw invalid(fmt::format("{}: the parser did not survive it", what));
  if (text[0] == kError) throw invalid(text.substr(1));
  Host host = host_from_wire(std::string_view(text).substr(1));
  if (host.name == kNoName) host.name.clear();
  return host;
}

}  // namespace echelon
