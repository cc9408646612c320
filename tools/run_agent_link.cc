// SPDX-License-Identifier: Apache-2.0
#include "tools/run_agent_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/error.h"

namespace echelon::run {
namespace {

constexpr std::size_t kMaxNoise = 65536;

std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const std::size_t newline = text.rfind('\n');
  return std::string(newline == std::string_view::npos ? text : text.substr(newline + 1));
}

}  // namespace

AgentLink::~AgentLink() {
  close();
  if (pid_ < 0) return;
  if (!greeted_) kill(pid_, SIGKILL);
  // The agent ends its ranks when its stdin closes; only a lost host's ssh needs more than that.
  for (int i = 0; i < 2000; ++i) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    usleep(1000);
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void AgentLink::start(const std::string& check_request) {
  try {
    cluster::Pipe in = cluster::make_pipe(), out = cluster::make_pipe(), err = cluster::make_pipe();
    cluster::Command standard;
    standard.in = in.read.get();
    standard.out = out.write.get();
    standard.err = err.write.get();
    pid_ = host_->start_agent(standard);
    in_ = std::move(in.write);
    out_ = std::move(out.read);
    err_ = std::move(err.read);
    fcntl(err_.get(), F_SETFL, O_NONBLOCK);
  } catch (const Error& e) {
    problem_ = e.what();
    return;
  }
  send(Frame::kCheck, check_request);
}

std::vector<std::string> AgentLink::problems(double waited) const {
  if (check_reply_) return check_reply_->problems;
  if (!problem_.empty()) return {problem_};
  if (open()) return {fmt::format("no answer within {} s", waited)};
  const std::string said = last_line(errors_.empty() ? noise_ : errors_);
  return {said.empty() ? "the agent could not be started" : "cannot be reached: " + said};
}

void AgentLink::send(Frame kind, const std::string& body) {
  if (in_) run::send(in_.get(), kind, body);
}

bool AgentLink::read(const std::function<void(const Message&)>& handle) {
  char buffer[65536];
  const ssize_t n = ::read(out_.get(), buffer, sizeof buffer);
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) {
    read_errors();
    return false;
  }
  std::string bytes(buffer, static_cast<std::size_t>(n));
  if (!greeted_ && !read_greeting(bytes)) return problem_.empty();
  reader_.feed(bytes);
  while (auto message = reader_.next()) {
    if (message->kind == Frame::kChecked) check_reply_ = decode_check_reply(message->body);
    if (message->kind == Frame::kExited) ++exited_;
    handle(*message);
  }
  return true;
}

// Takes everything up to the greeting out of `bytes`; false while it is not there.
bool AgentLink::read_greeting(std::string& bytes) {
  noise_ += bytes;
  const std::size_t start = noise_.find(kGreetingPrefix);
  const std::size_t end = start == std::string::npos ? start : noise_.find('\n', start);
  if (end == std::string::npos) {
    if (noise_.size() > kMaxNoise) problem_ = "what answers is not an echelon agent";
    return false;
  }
  const std::string theirs = noise_.substr(start, end + 1 - start);
  if (theirs != greeting()) {
    const auto version = [](const std::string& line) {
      return line.substr(kGreetingPrefix.size(), line.size() - kGreetingPrefix.size() - 1);
    };
    problem_ = fmt::format("echelon {} is installed there, but {} here", version(theirs),
                           version(greeting()));
    return false;
  }
  bytes = noise_.substr(end + 1);
  noise_.clear();
  greeted_ = true;
  return true;
}

void AgentLink::read_errors() {
  char buffer[4096];
  ssize_t n = 0;
  while (err_ && (n = ::read(err_.get(), buffer, sizeof buffer)) > 0) {
    const std::string_view bytes(buffer, static_cast<std::size_t>(n));
    if (greeted_) {
      passed_on_ += bytes;
    } else if (errors_.size() < kMaxNoise) {
      errors_ += bytes;
    }
  }
  if (n == 0) err_ = Fd();
}

void AgentLink::close() {
  in_ = Fd();
  out_ = Fd();
}

}  // namespace echelon::run
