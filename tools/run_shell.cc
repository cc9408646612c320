// SPDX-License-Identifier: Apache-2.0
#include "tools/run_shell.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "tools/run_options.h"
#include "tools/run_output.h"

namespace echelon::run {
namespace {

constexpr std::size_t kMaxRequest = 128U << 10;
constexpr int kDescriptors = 3;
constexpr int kNotStarted = 255;

// Abstract: it has no file, and belongs to the network namespace it was made in.
struct Address {
  sockaddr_un value = {};
  socklen_t length = 0;
  Address() {
    constexpr std::string_view kName = "echelon-rsh";
    value.sun_family = AF_UNIX;
    std::memcpy(value.sun_path + 1, kName.data(), kName.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kName.size());
  }
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&value); }
};

Fd new_socket() {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) throw system_error("cannot create a socket");
  return fd;
}

// A request with the three standard descriptors attached.
struct Request {
  std::string body;
  Fd standard[kDescriptors];
};

union ControlBuffer {
  cmsghdr header;
  char bytes[CMSG_SPACE(kDescriptors * sizeof(int))];
};

void send_request(int socket, std::string body) {
  const int fds[kDescriptors] = {0, 1, 2};
  ControlBuffer control = {};
  iovec data = {body.data(), body.size()};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds, sizeof fds);
  if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) throw system_error("cannot ask the launcher");
}

// A command runs as the launcher's user: nobody else may ask for one. And whoever asks does so at
// once; the launcher waits for nobody.
void expect_own_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid())
    throw invalid("rsh: asked by another user");
  const timeval limit{1, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

Request receive_request(int socket) {
  Request request;
  request.body.resize(kMaxRequest);
  ControlBuffer control = {};
  iovec data = {request.body.data(), request.body.size()};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) throw invalid("rsh: no request");
  int fds[kDescriptors] = {-1, -1, -1};
  std::memcpy(fds, CMSG_DATA(header), std::min(sizeof fds, header->cmsg_len - CMSG_LEN(0)));
  for (int i = 0; i < kDescriptors; ++i) request.standard[i] = Fd(fds[i]);
  request.body.resize(static_cast<std::size_t>(n));
  return request;
}

struct Session {
  pid_t pid;
  Fd socket;
};

class Server {
 public:
  explicit Server(const cluster::Cluster& cluster);
  int run(const std::string& command);

 private:
  void accept_one(int listener);
  pid_t start(const Request& request) const;
  bool reap(pid_t shell, int& code);
  static cluster::Command shell_command(const std::string& text);

  const cluster::Cluster& cluster_;
  std::vector<Fd> listeners_;
  std::vector<Session> sessions_;
  Fd signals_;
};

Server::Server(const cluster::Cluster& cluster) : cluster_(cluster) {
  for (int h = 0; h < cluster.size(); ++h) {
    const cluster::NamespaceScope scope(cluster.host(h).pidfd(), CLONE_NEWNET);
    Fd fd = new_socket();
    Address address;
    if (bind(fd.get(), address.generic(), address.length) != 0 || listen(fd.get(), 64) != 0) {
      throw system_error("cannot listen for the rsh agent");
    }
    listeners_.push_back(std::move(fd));
  }
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  signals_ = Fd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
}

cluster::Command Server::shell_command(const std::string& text) {
  cluster::Command command;
  command.argv = {"/bin/sh", "-c", text};
  return command;
}

int Server::run(const std::string& text) {
  const std::string script =
      fmt::format("#!/bin/sh\nexec '{}' run --enter -- \"$@\"\n", own_path());
  cluster::Command command = shell_command(text);
  std::string hosts;
  for (int h = 0; h < cluster_.size(); ++h) {
    command.env = {"ECHELON_RSH=" + cluster_.put_file(h, "rsh", script, 0755)};
    hosts += fmt::format("{}{}:{}", h > 0 ? "," : "", cluster::Cluster::host_name(h),
                         cluster_.spec().hosts[static_cast<std::size_t>(h)].ranks);
  }
  command.env.push_back("ECHELON_HOSTS=" + hosts);
  const pid_t shell = cluster_.spawn(0, command);
  int code = 0;
  while (!reap(shell, code)) {
    std::vector<pollfd> fds = {{signals_.get(), POLLIN, 0}};
    for (const Fd& listener : listeners_) fds.push_back({listener.get(), POLLIN, 0});
    const std::size_t first = fds.size();
    for (const Session& session : sessions_) fds.push_back({session.socket.get(), POLLIN, 0});
    poll(fds.data(), fds.size(), -1);
    // Nothing is ever sent after the request: readable means that the asking side has gone.
    for (std::size_t i = first; i < fds.size(); ++i) {
      if (fds[i].revents != 0) kill(-sessions_[i - first].pid, SIGKILL);
    }
    for (std::size_t i = 1; i < first; ++i) {
      if (fds[i].revents != 0) accept_one(fds[i].fd);
    }
  }
  return code;
}

void Server::accept_one(int listener) {
  Fd socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  try {
    expect_own_user(socket.get());
    const pid_t pid = start(receive_request(socket.get()));
    sessions_.push_back({pid, std::move(socket)});
  } catch (const Error& e) {
    write_all(2, fmt::format("echelon: rsh: {}\n", e.what()));
  }
}

pid_t Server::start(const Request& request) const {
  const auto [host, text] = decode_shell_request(request.body);
  for (int h = 0; h < cluster_.size(); ++h) {
    if (host != cluster::Cluster::host_name(h) && host != cluster::Cluster::address(h)) continue;
    cluster::Command command = shell_command(text);
    command.in = request.standard[0].get();
    command.out = request.standard[1].get();
    command.err = request.standard[2].get();
    command.own_group = true;
    return cluster_.spawn(h, command);
  }
  throw invalid(fmt::format("no host {}", host));
}

// True, with its code, when the shell has ended.
bool Server::reap(pid_t shell, int& code) {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof info) > 0) {
  }
  int status = 0;
  pid_t pid = 0;
  bool ended = false;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    const int result = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (pid == shell) code = result;
    ended |= pid == shell;
    std::erase_if(sessions_, [&](const Session& session) {
      if (session.pid != pid) return false;
      const std::string reply = ByteWriter().u32(static_cast<std::uint32_t>(result)).take();
      send(session.socket.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
      return true;
    });
  }
  return ended;
}

}  // namespace

std::string encode(const ShellRequest& request) {
  return ByteWriter().text(request.host).text(request.command).take();
}

ShellRequest decode_shell_request(std::string_view bytes) {
  ByteReader in(bytes, "rsh request");
  ShellRequest request;
  request.host = in.text();
  request.command = in.text();
  in.expect_end();
  return request;
}

int run_shell(const cluster::Cluster& cluster, const std::string& command) {
  return Server(cluster).run(command);
}

int enter_main(const std::vector<std::string>& request) {
  if (request.size() < 2) throw invalid("rsh: expected HOST COMMAND...");
  std::string text = request[1];
  for (std::size_t i = 2; i < request.size(); ++i) text += " " + request[i];
  const Fd socket = new_socket();
  Address address;
  if (connect(socket.get(), address.generic(), address.length) != 0) {
    throw system_error("rsh: this is not a host of `echelon run --emulate --shell`");
  }
  send_request(socket.get(), encode(ShellRequest{request[0], text}));
  char reply[4];
  if (read(socket.get(), reply, sizeof reply) != sizeof reply) return kNotStarted;
  return static_cast<int>(ByteReader({reply, sizeof reply}, "rsh reply").u32());
}

}  // namespace echelon::run
