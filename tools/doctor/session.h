// SPDX-License-Identifier: Apache-2.0
// One host during an examination: an agent of `echelon run`, reached as for a run, which starts
// `echelon doctor --agent` as its only rank.
#pragma once

#include <poll.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/run_agent_link.h"

namespace echelon::doctor {

// States: begun, then ready (the agent answered), then asked and answered in turns. A problem ends
// it in any of them.
class Session {
 public:
  using Json = nlohmann::json;
  using WallClock = std::chrono::system_clock;

  explicit Session(const run::HostPlan& host) : link_(host) {}

  const run::HostPlan& host() const { return link_.host(); }
  const std::string& problem() const { return problem_; }
  bool good() const { return problem_.empty(); }

  void begin();
  void ask(const Json& question);
  bool waiting() const { return good() && waiting_; }
  void give_up(double waited);            // when it still waits
  void fail(const std::string& problem);  // the first one stays
  void close() { link_.close(); }

  // Valid when it is good and does not wait.
  const Json& answer() const { return answer_; }
  WallClock::time_point asked() const { return asked_; }
  WallClock::time_point answered() const { return answered_; }

  void add_to(std::vector<pollfd>& fds) const;  // two entries
  void handle(const pollfd* fds);               // the same two

 private:
  void read();
  void start_examination();
  void on_message(const run::Message& message);
  void on_output(std::string_view bytes);
  void on_line(const std::string& line);

  run::AgentLink link_;
  bool waiting_ = false;
  std::string output_;  // not yet a whole line
  std::string errors_;
  std::string problem_;
  Json answer_;
  WallClock::time_point asked_, answered_;
};

}  // namespace echelon::doctor
