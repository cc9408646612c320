// SPDX-License-Identifier: Apache-2.0
#include "tools/run_agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "tools/cluster/process.h"
#include "tools/run_bind.h"
#include "tools/run_check.h"
#include "tools/run_protocol.h"

namespace echelon::run {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kGrace{2};  // from the polite signal to SIGKILL

struct Rank {
  int rank = 0;
  pid_t pid = -1;
  Fd streams[2];  // its stdout and stderr
  bool running = true;
};

// Invariants: every started rank leads a process group of its own; the agent exits only when none
// of its descendants is left.
class Agent {
 public:
  int run();

 private:
  void handle(const Message& message);
  void check(const CheckRequest& request);
  void start(const Job& job);
  void start_rank(const Job& job, std::size_t local_rank, const std::vector<Core>& cores);
  bool read_launcher();
  void forward(Rank& rank, int stream, bool all);
  void reap();
  void exited(Rank& rank, int status);
  void write_input();
  void end(int signal);
  void kill_descendants();
  void wait_for_event();
  bool done() const;

  MessageReader reader_;
  std::vector<Rank> ranks_;
  Fd signals_;
  Fd input_;  // rank 0's stdin, non-blocking
  std::string pending_input_;
  bool input_ended_ = false;
  bool connected_ = true;
  Clock::time_point kill_at_ = Clock::time_point::max();
};

int Agent::run() {
  signal(SIGPIPE, SIG_IGN);
  // What ranks leave behind becomes our child, so that it can be found and ended.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t mask;
  sigemptyset(&mask);
  // Ctrl-C reaches the whole foreground group; the launcher alone decides what it means.
  for (int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&mask, s);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  signals_ = Fd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  const std::string hello = greeting();
  connected_ = write(1, hello.data(), hello.size()) == static_cast<ssize_t>(hello.size());
  while (connected_ && !done()) wait_for_event();
  kill_descendants();
  return 0;
}

bool Agent::done() const {
  if (ranks_.empty()) return false;
  for (const Rank& rank : ranks_) {
    if (rank.running) return false;
  }
  return true;
}

void Agent::wait_for_event() {
  std::vector<pollfd> fds = {{0, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
  const bool writing = input_ && !pending_input_.empty();
  fds.push_back({writing ? input_.get() : -1, POLLOUT, 0});
  for (const Rank& rank : ranks_) {
    for (const Fd& stream : rank.streams) fds.push_back({stream.get(), POLLIN, 0});
  }
  int limit = -1;
  if (kill_at_ != Clock::time_point::max()) {
    limit = static_cast<int>(
        std::max<std::int64_t>(0, (kill_at_ - Clock::now()) / std::chrono::milliseconds(1) + 1));
  }
  poll(fds.data(), fds.size(), limit);
  for (std::size_t i = 3; i < fds.size(); ++i) {
    if (fds[i].revents != 0) forward(ranks_[(i - 3) / 2], static_cast<int>((i - 3) % 2), false);
  }
  if (fds[1].revents != 0) reap();
  if (fds[2].revents != 0) write_input();
  if (Clock::now() >= kill_at_) end(SIGKILL);
  if (fds[0].revents != 0) connected_ = connected_ && read_launcher();
}

bool Agent::read_launcher() {
  char buffer[65536];
  const ssize_t n = read(0, buffer, sizeof buffer);
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) return false;
  reader_.feed({buffer, static_cast<std::size_t>(n)});
  while (auto message = reader_.next()) {
    try {
      handle(*message);
    } catch (const Error& e) {
      connected_ = send(1, Frame::kFailed, e.what());
    }
  }
  return connected_;
}

void Agent::handle(const Message& message) {
  if (message.kind == Frame::kCheck) check(decode_check_request(message.body));
  if (message.kind == Frame::kStart && ranks_.empty()) start(decode_job(message.body));
  if (message.kind == Frame::kEnd) end(static_cast<int>(ByteReader(message.body, "end").u32()));
  if (message.kind == Frame::kInput) {
    pending_input_ += message.body;
    input_ended_ = message.body.empty();
    write_input();
  }
}

void Agent::check(const CheckRequest& request) {
  CheckReply reply;
  reply.problems = problems_of_this_host(request);
  reply.port = free_port();
  connected_ = send(1, Frame::kChecked, encode(reply));
}

void Agent::start(const Job& job) {
  if (chdir(job.directory.c_str()) != 0) throw system_error("cannot enter " + job.directory);
  const std::vector<Core> cores = cluster::usable_cores();
  for (std::size_t i = 0; i < job.ranks.size(); ++i) start_rank(job, i, cores);
  if (input_) connected_ = send(1, Frame::kWantInput, {});
}

void Agent::start_rank(const Job& job, std::size_t local_rank, const std::vector<Core>& cores) {
  const int rank = job.ranks[local_rank];
  const std::vector<int> cpus = cpus_of_slot(cores, job.bind, static_cast<int>(local_rank),
                                             static_cast<int>(job.ranks.size()));
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  cluster::Pipe out = cluster::make_pipe(), err = cluster::make_pipe();
  cluster::Pipe in;
  if (rank == 0) in = cluster::make_pipe();
  const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  cluster::Command command{job.argv, job.env, in.read ? in.read.get() : nothing.get(),
                           out.write.get(), err.write.get()};
  command.env.push_back(fmt::format("ECHELON_RANK={}", rank));
  command.env.push_back(fmt::format("ECHELON_LOCAL_RANK={}", local_rank));
  command.own_group = true;
  const bool bound = !cpus.empty();
  const pid_t pid = cluster::spawn(command, [&set, bound] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return bound && sched_setaffinity(0, sizeof set, &set) != 0 ? errno : 0;
  });
  Rank started{rank, pid, {std::move(out.read), std::move(err.read)}};
  for (const Fd& stream : started.streams) fcntl(stream.get(), F_SETFL, O_NONBLOCK);
  if (in.write) fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
  if (rank == 0) input_ = std::move(in.write);
  ranks_.push_back(std::move(started));
  connected_ = send(1, Frame::kStarted,
                    ByteWriter()
                        .u32(static_cast<std::uint32_t>(rank))
                        .u32(static_cast<std::uint32_t>(pid))
                        .take());
}

// Passes on what the rank has written; with `all`, everything that is there.
void Agent::forward(Rank& rank, int stream, bool all) {
  char buffer[32768];
  Fd& fd = rank.streams[stream];
  ssize_t n = 1;
  while (fd && n > 0) {
    n = read(fd.get(), buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) fd = Fd();
    if (n <= 0) return;
    std::string body = ByteWriter()
                           .u32(static_cast<std::uint32_t>(rank.rank))
                           .u8(static_cast<std::uint8_t>(stream + 1))
                           .take();
    body.append(buffer, static_cast<std::size_t>(n));
    connected_ = connected_ && send(1, Frame::kOutput, body);
    if (!all) return;
  }
}

void Agent::reap() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) > 0) {
  }
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    for (Rank& rank : ranks_) {
      if (rank.pid == pid && rank.running) exited(rank, status);
    }
  }
}

void Agent::exited(Rank& rank, int status) {
  rank.running = false;
  for (int stream : {0, 1}) {
    forward(rank, stream, true);
    rank.streams[stream] = Fd();
  }
  if (rank.rank == 0) input_ = Fd();
  connected_ = connected_ && send(1, Frame::kExited,
                                  ByteWriter()
                                      .u32(static_cast<std::uint32_t>(rank.rank))
                                      .u32(static_cast<std::uint32_t>(status))
                                      .take());
}

void Agent::write_input() {
  if (!input_) return;
  const bool had = !pending_input_.empty();
  if (had) {
    const ssize_t n = write(input_.get(), pending_input_.data(), pending_input_.size());
    if (n > 0) pending_input_.erase(0, static_cast<std::size_t>(n));
    if (n < 0 && errno != EAGAIN && errno != EINTR) input_ = Fd();
  }
  if (!pending_input_.empty()) return;
  if (input_ended_) input_ = Fd();
  if (had && input_) connected_ = connected_ && send(1, Frame::kWantInput, {});
}

void Agent::end(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.running) kill(-rank.pid, signal);
  }
  kill_at_ = signal == SIGKILL ? Clock::time_point::max() : Clock::now() + kGrace;
}

// Also what left its rank's process group, and what that starts while it is being ended.
void Agent::kill_descendants() {
  const std::string list = fmt::format("/proc/self/task/{}/children", getpid());
  for (const Rank& rank : ranks_) kill(-rank.pid, SIGKILL);
  for (int round = 0; round < 1000; ++round) {
    std::ifstream children(list);
    pid_t child = 0;
    while (children >> child) kill(child, SIGKILL);
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0) return;  // no children left
    usleep(1000);
  }
}

}  // namespace

int agent_main() { return Agent().run(); }

}  // namespace echelon::run
