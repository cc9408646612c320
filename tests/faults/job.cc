// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/job.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <utility>

#include "tests/support/ranks.h"

namespace echelon::test {
namespace {

using cluster::Cluster;
using Clock = std::chrono::steady_clock;

constexpr int kPorts = 20000;  // of the first job's rank 0
constexpr std::chrono::seconds kHang{30 * kSlowness};

}  // namespace

long long now() { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }
double seconds(long long nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

std::optional<std::string> Rank::said(std::string_view word) const {
  std::optional<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !lines.eof();)
    if (line.starts_with(word) && line.size() > word.size()) found = line.substr(word.size() + 1);
  return found;
}

Rank::End Rank::end() const {
  End end;
  std::istringstream words(said("ended").value_or(""));
  words >> end.status >> end.at;
  std::getline(words, end.text);
  return end;
}

Job::Job(const Cluster& cluster, const Start& start) : cluster_(cluster) {
  int size = 0, rank = 0;
  for (const auto& host : cluster.spec().hosts) size += host.ranks;
  for (int host = 0; host < cluster.size(); ++host)
    for (int k = 0; k < cluster.spec().hosts[host].ranks; ++k)
      start_rank(start, rank++, size, host);
}

void Job::start_rank(const Start& start, int rank, int size, int host) {
  cluster::Command command;
  command.argv = start.argv(rank);
  command.env = start.env;
  for (std::string& variable : std::vector<std::string>{
           fmt::format("ECHELON_RANK={}", rank), fmt::format("ECHELON_SIZE={}", size),
           fmt::format("ECHELON_ROOT={}:{}", Cluster::address(0), kPorts + start.number),
           "ECHELON_SECRET=" + std::string(64, 'a')})
    command.env.push_back(std::move(variable));
  cluster::Pipe pipe = cluster::make_pipe();
  command.out = pipe.write.get();
  ranks_.push_back({rank, host, cluster_.spawn(host, command), std::move(pipe.read), {}, true});
}

Job::~Job() {
  for (const Rank& rank : ranks_)
    if (rank.process > 0) kill(rank.process, SIGKILL);
  for (const Rank& rank : ranks_)
    if (rank.process > 0) cluster::wait_for(rank.process);
}

void Job::read_some() {
  std::vector<pollfd> fds;
  for (const Rank& rank : ranks_) fds.push_back({rank.open ? rank.out.get() : -1, POLLIN, 0});
  poll(fds.data(), fds.size(), 20);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (fds[r].revents == 0) continue;
    char bytes[4096];
    const ssize_t n = read(ranks_[r].out.get(), bytes, sizeof bytes);
    if (n > 0) ranks_[r].text.append(bytes, static_cast<std::size_t>(n));
    ranks_[r].open = n > 0;
  }
}

bool Job::listen(const std::function<bool()>& enough) {
  const auto limit = Clock::now() + kHang;
  while (!enough() && Clock::now() < limit) read_some();
  return enough();
}

bool Job::all_said(std::string_view word, int except) const {
  for (const Rank& rank : ranks_)
    if (rank.number != except && !rank.said(word)) return false;
  return true;
}

void Job::end(int rank) { kill(ranks_[rank].process, SIGKILL); }

int Job::exit_code(int rank) { return cluster::wait_for(std::exchange(ranks_[rank].process, -1)); }

}  // namespace echelon::test
