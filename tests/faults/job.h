// SPDX-License-Identifier: Apache-2.0
// Ranks on a virtual cluster that tell on standard output what happens to them, in lines that begin
// with a word. Whatever still runs is killed with the object.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fd.h"
#include "tools/cluster/cluster.h"

namespace echelon::test {

// On a clock that the ranks have too.
long long now();  // ns
double seconds(long long nanoseconds);

// What a rank has said.
struct Rank {
  int number = 0, host = 0;
  pid_t process = -1;
  Fd out;
  std::string text;
  bool open = true;

  // The rest of the last line that begins with `word`, or nothing.
  std::optional<std::string> said(std::string_view word) const;

  // What it said with the word "ended": how its calls went at last.
  struct End {
    int status = 0;
    long long at = 0;  // ns
    std::string text;
  };
  End end() const;
};

class Job {
 public:
  struct Start {
    int number;  // of the job: no two with the same one at once
    std::function<std::vector<std::string>(int rank)> argv;
    std::vector<std::string> env;
  };

  // As many ranks on each host as the cluster's spec says, with the variables of `echelon run`.
  Job(const cluster::Cluster& cluster, const Start& start);
  ~Job();
  Job(const Job&) = delete;

  const std::vector<Rank>& ranks() const { return ranks_; }

  // Reads until `enough`, or for so long that something hangs. Whether it was enough.
  bool listen(const std::function<bool()>& enough);
  bool all_said(std::string_view word, int except = -1) const;

  void end(int rank);  // by SIGKILL
  int exit_code(int rank);

 private:
  void start_rank(const Start& start, int rank, int size, int host);
  void read_some();

  const cluster::Cluster& cluster_;
  std::vector<Rank> ranks_;
};

}  // namespace echelon::test
