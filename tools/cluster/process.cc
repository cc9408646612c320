// SPDX-License-Identifier: Apache-2.0
#include "tools/cluster/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "lib/base/error.h"

namespace echelon::cluster {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> out;
  const auto name = [](std::string_view v) { return v.substr(0, v.find('=')); };
  for (char** e = environ; *e != nullptr; ++e) {
    bool replaced = false;
    for (const std::string& a : added) replaced |= name(a) == name(*e);
    if (!replaced) out.emplace_back(*e);
  }
  out.insert(out.end(), added.begin(), added.end());
  return out;
}

// Puts `fd` at `target`; also when they are equal, so that it survives exec.
bool place(int fd, int target) {
  if (fd < 0) return true;
  if (fd == target) return fcntl(fd, F_SETFD, 0) == 0;
  return dup2(fd, target) >= 0;
}

void restore_signals() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &standard, nullptr);
  sigaction(SIGCHLD, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

pid_t spawn(const Command& command, const std::function<int()>& prepare) {
  const std::vector<std::string> environment = merged_environment(command.env);
  const std::vector<char*> argv = pointers(command.argv);
  const std::vector<char*> env = pointers(environment);
  Pipe report = make_pipe();
  const pid_t pid = fork();
  if (pid < 0) throw system_error("cannot fork");
  if (pid == 0) {
    restore_signals();
    if (command.own_group) setpgid(0, 0);
    int error = prepare ? prepare() : 0;
    if (error == 0 && place(command.in, 0) && place(command.out, 1) && place(command.err, 2)) {
      execvpe(argv[0], argv.data(), env.data());
    }
    if (error == 0) error = errno;
    [[maybe_unused]] const ssize_t n = write(report.write.get(), &error, sizeof error);
    _exit(127);
  }
  report.write = Fd();
  int error = 0;
  ssize_t n = 0;
  while ((n = read(report.read.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n == 0) return pid;
  waitpid(pid, nullptr, 0);
  throw system_error("cannot start " + command.argv[0], error);
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw system_error(fmt::format("cannot wait for process {}", pid));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Fd text_file(std::string_view text) {
  Fd fd(memfd_create("echelon", MFD_CLOEXEC));
  if (!fd) throw system_error("cannot create an anonymous file");
  if (pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw system_error("cannot write an anonymous file");
  }
  return fd;
}

Pipe make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) throw system_error("cannot create a pipe");
  return {Fd(fds[0]), Fd(fds[1])};
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream out(path);
  out << text << std::flush;
  if (!out) throw system_error("cannot write " + path);
}

}  // namespace echelon::cluster
