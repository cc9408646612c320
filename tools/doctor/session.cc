// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/session.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "lib/base/join.h"

namespace echelon::doctor {
namespace {

// The agent's own program, wherever it lies on that host.
constexpr const char* kProgram = "/proc/self/exe";
constexpr const char* kFolder = "/";
constexpr std::size_t kMostErrors = 4096;
constexpr std::size_t kMostOutput = 16 << 20;

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

void Session::begin() {
  waiting_ = true;
  link_.start(run::encode(run::CheckRequest{kProgram, kFolder, ""}));
  if (!link_.open()) fail(joined(link_.problems(0), "; "));
}

void Session::ask(const Json& question) {
  waiting_ = true;
  asked_ = WallClock::now();
  link_.send(run::Frame::kInput,
             question.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
}

void Session::give_up(double waited) {
  if (waiting()) fail(fmt::format("no answer within {:.3g} s", waited));
}

void Session::add_to(std::vector<pollfd>& fds) const {
  fds.push_back({link_.out(), POLLIN, 0});
  fds.push_back({link_.err(), POLLIN, 0});
}

void Session::handle(const pollfd* fds) {
  if (fds[1].revents != 0) link_.read_errors();
  if (fds[0].revents == 0) return;
  try {
    read();
  } catch (const Error& e) {
    fail(e.what());
  } catch (const Json::exception& e) {
    fail(fmt::format("what answers is no doctor: {}", e.what()));
  }
}

void Session::read() {
  if (link_.read([this](const run::Message& message) { on_message(message); })) return;
  const bool was_checked = link_.check_reply().has_value();
  link_.close();
  fail(was_checked ? "the connection was lost" : joined(link_.problems(0), "; "));
}

void Session::on_message(const run::Message& message) {
  if (message.kind == run::Frame::kChecked) {
    const std::vector<std::string>& problems = link_.check_reply()->problems;
    if (!problems.empty()) return fail(joined(problems, "; "));
    start_examination();
  }
  if (message.kind == run::Frame::kFailed) fail(message.body);
  ByteReader in(message.body, "message of " + host().name);
  if (message.kind == run::Frame::kOutput) {
    in.u32();
    const bool is_error = in.u8() == 2;
    const std::string_view bytes = std::string_view(message.body).substr(5);
    if (!is_error) return on_output(bytes);
    errors_.append(bytes.substr(0, kMostErrors - std::min(kMostErrors, errors_.size())));
  }
  if (message.kind == run::Frame::kExited) {
    in.u32();
    const int status = static_cast<int>(in.u32());
    const std::string said = errors_.empty() ? "" : ": " + last_line(errors_);
    const bool killed = WIFSIGNALED(status);
    fail(fmt::format("the examination there {} {}{}",
                     killed ? "was killed by signal" : "ended with code",
                     killed ? WTERMSIG(status) : WEXITSTATUS(status), said));
  }
}

void Session::start_examination() {
  run::Job job;
  job.argv = {kProgram, "doctor", "--agent"};
  job.directory = kFolder;
  job.env = host().env;
  job.ranks = {0};
  job.bind = run::Bind::kNone;
  link_.send(run::Frame::kStart, run::encode(job));
  waiting_ = false;
}

void Session::on_output(std::string_view bytes) {
  output_.append(bytes);
  if (output_.size() > kMostOutput) fail("what answers is no doctor: it does not stop");
  std::size_t end = 0;
  while ((end = output_.find('\n')) != std::string::npos) {
    on_line(output_.substr(0, end));
    output_.erase(0, end + 1);
  }
}

// Lines that are no JSON are those of some library.
void Session::on_line(const std::string& line) {
  if (!line.starts_with('{') || !waiting_) return;
  answered_ = WallClock::now();
  answer_ = Json::parse(line);
  waiting_ = false;
  if (answer_.contains("error")) fail(answer_.at("error").get<std::string>());
}

void Session::fail(const std::string& problem) {
  if (problem_.empty()) problem_ = problem;
}

}  // namespace echelon::doctor
