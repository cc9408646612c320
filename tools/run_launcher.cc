// SPDX-License-Identifier: Apache-2.0
#include "tools/run_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "tools/run_agent_link.h"
#include "tools/run_output.h"

namespace echelon::run {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kForceAfter{4};  // the agents' own grace period, and some more

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

std::string new_secret() {
  unsigned char bytes[32];
  randombytes_buf(bytes, sizeof bytes);
  std::string out;
  for (unsigned char b : bytes) out += fmt::format("{:02x}", b);
  sodium_memzero(bytes, sizeof bytes);
  return out;
}

struct RankState {
  const AgentLink* link = nullptr;
  LineWriter out, err;
  unsigned pid = 0;
};

Lines lines_of(Lines wanted, int fd) {
  if (wanted != Lines::kAuto) return wanted;
  return isatty(fd) == 1 ? Lines::kTagged : Lines::kWhole;
}

class Launcher {
 public:
  explicit Launcher(const RunPlan& plan) : plan_(plan) {}
  int run();

 private:
  void block_signals();
  bool check_hosts();
  bool all_checked() const;
  void start();
  std::vector<std::string> environment(const AgentLink& link) const;
  void wait_for_event(Clock::time_point limit);
  void handle(AgentLink& link, const Message& message);
  void exited(int rank, int status);
  void lost(AgentLink& link);
  void on_signal();
  void read_input();
  bool may_read_input() const;
  void say(const std::string& message);
  void expect_reader();
  OutputQueue& err() { return one_place_ ? out_ : err_; }
  bool may_read_output() const { return !out_.full() && !err_.full(); }
  void failed(int code);
  void end(int code, int signal);
  bool running() const;

  const RunPlan& plan_;
  std::vector<AgentLink> links_;
  std::map<int, RankState> ranks_;
  Fd signals_;
  OutputQueue out_{1}, err_{2};
  const bool one_place_ = same_file(1, 2);  // then out_ is for both, in the order of the lines
  bool started_ = false;
  bool ending_ = false;
  bool any_good_ = false;  // a rank has returned 0
  int code_ = 0;           // of the first failure
  AgentLink* wants_input_ = nullptr;
  Clock::time_point deadline_ = Clock::time_point::max();  // of the run
  Clock::time_point force_at_ = Clock::time_point::max();
};

void Launcher::block_signals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t mask;
  sigemptyset(&mask);
  for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&mask, s);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  signals_ = Fd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
}

int Launcher::run() {
  block_signals();
  links_.reserve(plan_.hosts.size());
  for (const HostPlan& host : plan_.hosts) links_.emplace_back(host);
  if (check_hosts()) {
    start();
  } else {
    if (!ending_) end(kExitHost, SIGTERM);
    links_.clear();
  }
  if (started_ && plan_.timeout > 0) deadline_ = after(plan_.timeout);
  while (running()) {
    wait_for_event(std::min(deadline_, force_at_));
    if (Clock::now() >= deadline_) {
      deadline_ = Clock::time_point::max();
      say(fmt::format("the run took longer than --timeout {} s", plan_.timeout));
      end(kExitTimeout, SIGTERM);
    }
    if (Clock::now() >= force_at_) break;  // an agent does not answer; its connection closes now
  }
  return plan_.keep_going && any_good_ && !ending_ ? 0 : code_;
}

// Also while the output of ranks that have ended is still to be written.
bool Launcher::running() const {
  if (!out_.empty() || !err_.empty()) return true;
  return std::any_of(links_.begin(), links_.end(),
                     [](const AgentLink& link) { return link.open(); });
}

bool Launcher::all_checked() const {
  return std::all_of(links_.begin(), links_.end(), [](const AgentLink& link) {
    return !link.open() || link.check_reply().has_value();
  });
}

// One line for every host that cannot take part; true when all can.
bool Launcher::check_hosts() {
  const Clock::time_point limit = after(plan_.check_timeout);
  for (AgentLink& link : links_) {
    link.start(encode(CheckRequest{plan_.argv[0], plan_.directory, plan_.interface_name}));
  }
  while (!all_checked() && !ending_ && Clock::now() < limit) wait_for_event(limit);
  bool good = !ending_;
  for (const AgentLink& link : links_) {
    if (ending_) break;
    for (const std::string& problem : link.problems(plan_.check_timeout)) {
      say(fmt::format("{}: {}", link.host().name, problem));
      good = false;
    }
  }
  return good;
}

std::vector<std::string> Launcher::environment(const AgentLink& link) const {
  const HostPlan& host = link.host();
  std::vector<std::string> env = plan_.env;
  env.insert(env.end(), host.env.begin(), host.env.end());
  env.push_back(fmt::format("ECHELON_SIZE={}", plan_.size));
  env.push_back(fmt::format("ECHELON_LOCAL_SIZE={}", host.ranks.size()));
  if (!plan_.interface_name.empty()) env.push_back("ECHELON_INTERFACE=" + plan_.interface_name);
  return env;
}

void Launcher::start() {
  const AgentLink& first = links_.front();
  const std::string root =
      fmt::format("ECHELON_ROOT={}:{}", first.host().address, first.check_reply()->port);
  const std::string secret = "ECHELON_SECRET=" + new_secret();
  started_ = true;
  for (AgentLink& link : links_) {
    const HostPlan& host = link.host();
    for (int rank : host.ranks) {
      const std::string tag = fmt::format("[{} {}] ", rank, host.name);
      ranks_.emplace(rank, RankState{&link,
                                     {out_, tag, lines_of(plan_.lines, 1)},
                                     {err(), tag, lines_of(plan_.lines, 2)}});
    }
    Job job{plan_.argv, plan_.directory, environment(link), host.ranks, plan_.bind};
    job.env.push_back(root);
    job.env.push_back(secret);
    link.send(Frame::kStart, encode(job));
  }
}

void Launcher::wait_for_event(Clock::time_point limit) {
  std::vector<pollfd> fds = {{signals_.get(), POLLIN, 0}, {may_read_input() ? 0 : -1, POLLIN, 0}};
  for (const OutputQueue* queue : {&out_, &err_})
    fds.push_back({queue->empty() ? -1 : queue->fd(), POLLOUT, 0});
  const std::size_t first = fds.size();
  const bool listening = ending_ || may_read_output();
  for (const AgentLink& link : links_) {
    fds.push_back({listening ? link.out() : -1, POLLIN, 0});
    fds.push_back({listening ? link.err() : -1, POLLIN, 0});
  }
  int wait = -1;
  if (limit != Clock::time_point::max()) {
    const auto left = (limit - Clock::now()) / std::chrono::milliseconds(1) + 1;
    wait = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
  }
  if (poll(fds.data(), fds.size(), wait) < 0) return;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    AgentLink& link = links_[i];
    if (fds[first + 2 * i + 1].revents != 0) link.read_errors();
    const bool alive = fds[first + 2 * i].revents == 0 ||
                       link.read([&](const Message& message) { handle(link, message); });
    err().push(link.take_errors());
    if (!alive) lost(link);
  }
  out_.flush();
  err_.flush();
  expect_reader();
  if (fds[0].revents != 0) on_signal();
  // The rank that wanted input may have ended just now.
  if (fds[1].revents != 0 && wants_input_ != nullptr) read_input();
}

void Launcher::handle(AgentLink& link, const Message& message) {
  ByteReader in(message.body, "message of " + link.host().name);
  if (message.kind == Frame::kWantInput) wants_input_ = &link;
  if (message.kind == Frame::kFailed && !ending_) {
    say(fmt::format("{}: {}", link.host().name, message.body));
    end(kExitHost, SIGTERM);
  }
  if (message.kind != Frame::kStarted && message.kind != Frame::kOutput &&
      message.kind != Frame::kExited) {
    return;
  }
  const int rank = static_cast<int>(in.u32());
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) throw invalid(fmt::format("{}: no rank {}", link.host().name, rank));
  if (message.kind == Frame::kStarted) found->second.pid = in.u32();
  if (message.kind == Frame::kExited) exited(rank, static_cast<int>(in.u32()));
  if (message.kind == Frame::kOutput) {
    LineWriter& writer = in.u8() == 1 ? found->second.out : found->second.err;
    // A run that ends waits for its agents, not for a reader that takes nothing.
    if (!ending_ || may_read_output()) writer.write(std::string_view(message.body).substr(5));
  }
}

void Launcher::say(const std::string& message) { err().push("echelon: " + message + "\n"); }

// When the reader of a pipe has left, as `head` does, no one wants the rest.
void Launcher::expect_reader() {
  if ((out_.broken() || err_.broken()) && !ending_) end(128 + SIGPIPE, SIGTERM);
}

void Launcher::exited(int rank, int status) {
  RankState& state = ranks_.at(rank);
  state.out.finish();
  state.err.finish();
  any_good_ |= status == 0;
  if (status == 0 || ending_) return;
  const bool killed = WIFSIGNALED(status);
  const int number = killed ? WTERMSIG(status) : WEXITSTATUS(status);
  say(fmt::format("rank {} on {} (pid {}) {} {}", rank, state.link->host().name, state.pid,
                  killed ? "was killed by signal" : "exited with code", number));
  failed(killed ? 128 + number : number);
}

// Part of the job has. The rest goes on if it is meant to.
void Launcher::failed(int code) {
  if (!plan_.keep_going) return end(code, SIGTERM);
  if (code_ == 0) code_ = code;
}

void Launcher::lost(AgentLink& link) {
  const bool finished = link.finished();
  link.close();
  if (&link == wants_input_) wants_input_ = nullptr;
  if (finished || ending_ || !started_) return;
  say(fmt::format("{}: the connection was lost while ranks were running", link.host().name));
  failed(kExitHost);
}

void Launcher::on_signal() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    // The second one means "now".
    const bool now = ending_;
    end(128 + signal, now ? SIGKILL : SIGTERM);
    if (now) out_.drop();
    if (now) err_.drop();
  }
}

void Launcher::end(int code, int signal) {
  if (!ending_) code_ = code;
  ending_ = true;
  force_at_ = Clock::now() + kForceAfter;
  for (AgentLink& link : links_) {
    if (!started_) link.close();
    link.send(Frame::kEnd, ByteWriter().u32(static_cast<std::uint32_t>(signal)).take());
  }
}

// Reading from a terminal in the background would stop the launcher.
bool Launcher::may_read_input() const {
  if (wants_input_ == nullptr) return false;
  const pid_t foreground = tcgetpgrp(0);
  return foreground < 0 || foreground == getpgrp();
}

void Launcher::read_input() {
  char buffer[32768];
  const ssize_t n = read(0, buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  AgentLink* link = std::exchange(wants_input_, nullptr);
  link->send(Frame::kInput, {buffer, n > 0 ? static_cast<std::size_t>(n) : 0});
}

}  // namespace

int launch(const RunPlan& plan) {
  if (sodium_init() < 0) throw Error(ECH_ERR_SYSTEM, "cannot initialize libsodium");
  return Launcher(plan).run();
}

}  // namespace echelon::run
