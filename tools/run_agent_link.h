// SPDX-License-Identifier: Apache-2.0
// The launcher's end of the connection to one agent.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/fd.h"
#include "tools/run_launcher.h"
#include "tools/run_protocol.h"

namespace echelon::run {

// Invariant: open() until close(); the destructor closes, and the agent ends its ranks then.
class AgentLink {
 public:
  explicit AgentLink(const HostPlan& host) : host_(&host) {}
  AgentLink(AgentLink&&) = default;
  AgentLink& operator=(AgentLink&&) = delete;
  ~AgentLink();

  // Starts the agent and asks for the check. What prevents it is reported by problems().
  void start(const std::string& check_request);

  const HostPlan& host() const { return *host_; }
  bool open() const { return static_cast<bool>(out_); }
  int out() const { return out_.get(); }
  int err() const { return err_.get(); }
  const std::optional<CheckReply>& check_reply() const { return check_reply_; }

  // Every rank that was started has exited.
  bool finished() const { return !host_->ranks.empty() && exited_ == host_->ranks.size(); }

  // Why this host cannot take part, one sentence each.
  std::vector<std::string> problems(double waited) const;

  void send(Frame kind, const std::string& body);
  // Calls `handle` for each message that has come; false when the connection has ended.
  bool read(const std::function<void(const Message&)>& handle);
  void read_errors();
  // What the agent and its ssh have said on stderr since the greeting and the last call.
  std::string take_errors() { return std::exchange(passed_on_, {}); }
  void close();

 private:
  bool read_greeting(std::string& bytes);

  const HostPlan* host_;
  pid_t pid_ = -1;
  Fd in_, out_, err_;
  MessageReader reader_;
  std::optional<CheckReply> check_reply_;
  std::size_t exited_ = 0;
  bool greeted_ = false;
  std::string noise_;      // said on stdout before the greeting
  std::string errors_;     // and on stderr
  std::string passed_on_;  // on stderr since then
  std::string problem_;
};

}  // namespace echelon::run
