// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/examiner.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "lib/base/error.h"
#include "tools/doctor/report.h"
#include "tools/doctor/session.h"

namespace echelon::doctor {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr double kConnectSeconds = 3;  // a lost first packet is sent again after one
constexpr double kLookUpSeconds = 30;  // for names that no server knows
constexpr int kClockRounds = 4;        // the quickest of them counts

using Question = std::function<Json(std::size_t host)>;

class Examiner {
 public:
  explicit Examiner(const run::RunPlan& plan) : plan_(plan) {}
  Survey run();

 private:
  void begin();
  void ask(const Question& question, double limit);
  void wait(double limit);
  void report();
  void compare_clocks();
  void connect_all();
  void read_reached(std::size_t from, const std::vector<Connection>& tried);
  std::vector<Connection> connections_from(std::size_t from) const;
  Target target_of(const Connection& connection) const;
  // What `use` makes of the answers; an answer of another form is that host's problem.
  void each_answer(const std::function<void(std::size_t host)>& use);

  const run::RunPlan& plan_;
  std::vector<Session> sessions_;
  std::vector<std::uint16_t> ports_;
  Survey survey_;
};

Survey Examiner::run() {
  begin();
  report();
  compare_clocks();
  if (plan_.hosts.size() > 1) connect_all();
  for (std::size_t h = 0; h < sessions_.size(); ++h) {
    survey_.hosts[h].problem = sessions_[h].problem();
    sessions_[h].close();
  }
  return std::move(survey_);
}

void Examiner::begin() {
  sessions_.reserve(plan_.hosts.size());
  for (const run::HostPlan& host : plan_.hosts) {
    sessions_.emplace_back(host);
    survey_.hosts.push_back({host.name, {}, {}, {}});
  }
  ports_.resize(sessions_.size());
  for (Session& session : sessions_) session.begin();
  wait(plan_.check_timeout);
}

void Examiner::ask(const Question& question, double limit) {
  for (std::size_t h = 0; h < sessions_.size(); ++h)
    if (sessions_[h].good()) sessions_[h].ask(question(h));
  wait(limit);
}

void Examiner::wait(double limit) {
  const auto deadline =
      Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(limit * 1e3));
  const auto waits = [](const Session& session) { return session.waiting(); };
  while (std::ranges::any_of(sessions_, waits)) {
    const auto left = (deadline - Clock::now()) / std::chrono::milliseconds(1) + 1;
    if (left <= 0) break;
    std::vector<pollfd> fds;
    for (const Session& session : sessions_) session.add_to(fds);
    if (poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(left, 1 << 30))) < 0)
      continue;
    for (std::size_t h = 0; h < sessions_.size(); ++h) sessions_[h].handle(&fds[2 * h]);
  }
  for (Session& session : sessions_) session.give_up(limit);
}

void Examiner::each_answer(const std::function<void(std::size_t host)>& use) {
  for (std::size_t h = 0; h < sessions_.size(); ++h) {
    if (!sessions_[h].good()) continue;
    try {
      use(h);
    } catch (const std::exception& e) {
      sessions_[h].fail(e.what());
    }
  }
}

void Examiner::report() {
  const auto question = [this](std::size_t h) {
    return Json{{"ask", "report"},
                {"hosts", plan_.hosts.size()},
                {"ranks", plan_.size},
                {"local_ranks", plan_.hosts[h].ranks.size()}};
  };
  ask(question, plan_.check_timeout);
  each_answer([this](std::size_t h) {
    const Json& answer = sessions_[h].answer();
    survey_.hosts[h].report = report_from(answer.at("report"));
    ports_[h] = answer.at("port");
  });
}

void Examiner::compare_clocks() {
  for (int round = 0; round < kClockRounds; ++round) {
    ask([](std::size_t) { return Json{{"ask", "time"}}; }, plan_.check_timeout);
    each_answer([this](std::size_t h) {
      const auto seconds = [](Session::WallClock::time_point t) {
        return std::chrono::duration<double>(t.time_since_epoch()).count();
      };
      const double asked = seconds(sessions_[h].asked()), heard = seconds(sessions_[h].answered());
      const double there = sessions_[h].answer().at("time");
      const ClockOffset offset{there - (asked + heard) / 2, (heard - asked) / 2};
      std::optional<ClockOffset>& best = survey_.hosts[h].clock;
      if (!best || offset.uncertainty < best->uncertainty) best = offset;
    });
  }
}

// To itself and to every other host by name, and to the address of each NIC of the others.
std::vector<Connection> Examiner::connections_from(std::size_t from) const {
  std::vector<Connection> all;
  for (std::size_t to = 0; to < sessions_.size(); ++to) {
    if (!sessions_[to].good()) continue;
    all.push_back({from, to, "", {}});
    if (to == from) continue;
    for (const NicFact& nic : survey_.hosts[to].report.nics)
      if (!nic.address.empty()) all.push_back({from, to, nic.name, {}});
  }
  return all;
}

Target Examiner::target_of(const Connection& connection) const {
  const std::uint16_t port = ports_[connection.to];
  if (connection.via.empty()) {
    const std::string& address = plan_.hosts[connection.to].address;
    return {address.substr(address.rfind('@') + 1), port};  // "user@b" is for ssh
  }
  for (const NicFact& nic : survey_.hosts[connection.to].report.nics)
    if (nic.name == connection.via) return {nic.address, port};
  return {};
}

void Examiner::connect_all() {
  std::vector<std::vector<Connection>> tried(sessions_.size());
  std::size_t most = 0;
  for (std::size_t h = 0; h < sessions_.size(); ++h) {
    if (sessions_[h].good()) tried[h] = connections_from(h);
    most = std::max(most, tried[h].size());
  }
  const auto question = [&](std::size_t h) {
    Json targets = Json::array();
    for (const Connection& connection : tried[h]) {
      const Target target = target_of(connection);
      targets.push_back({{"host", target.host}, {"port", target.port}});
    }
    return Json{{"ask", "reach"}, {"limit", kConnectSeconds}, {"targets", targets}};
  };
  ask(question, longest_reach(most, kConnectSeconds) + kLookUpSeconds);
  each_answer([&](std::size_t h) { read_reached(h, tried[h]); });
}

void Examiner::read_reached(std::size_t from, const std::vector<Connection>& tried) {
  const Json& list = sessions_[from].answer().at("reached");
  if (list.size() != tried.size()) throw invalid("answers to other questions");
  for (std::size_t i = 0; i < tried.size(); ++i) {
    Connection connection = tried[i];
    const std::optional<Outcome> outcome = parse_outcome(list[i].at("outcome").get<std::string>());
    if (!outcome) throw invalid("an outcome that is none");
    connection.reached = {*outcome, list[i].at("address"), list[i].at("detail")};
    survey_.connections.push_back(connection);
  }
}

}  // namespace

Survey survey_hosts(const run::Options& options) {
  signal(SIGPIPE, SIG_IGN);  // a host that goes away is a finding
  run::Options examined = options;
  examined.program = {"doctor"};  // what the plan wants; the agents are told by the sessions
  return Examiner(run::make_plan(examined)).run();
}

}  // namespace echelon::doctor
