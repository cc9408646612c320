// SPDX-License-Identifier: Apache-2.0
// One rank of a job in which something goes wrong, started by faults_test with the variables of
// `echelon run`. It calls one thing over and over until that fails, then checks that everything
// else fails alike, at once, and tells on standard output, with times of CLOCK_MONOTONIC in ns:
//   in PID              the communicator exists
//   struck NS           this rank is about to die, stop or abort
//   ended STATUS NS TEXT
//
//   fault_rank MOMENT COUNT [FAULT DELAY_MS]      with FAULT: this rank is the culprit
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "echelon/echelon.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGiveUp{40};  // longer than any bound that the test asserts
constexpr int kFailedCheck = 3;

long long now() { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(4);
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fault_rank: %s\n", what);
  _exit(kFailedCheck);
}

struct Job {
  std::string moment;
  std::size_t count = 1;
  std::string fault;
  int delay = 0;  // ms
  ech_comm* comm = nullptr;
  int size = 1;
  std::vector<float> in, out;
};

[[noreturn]] void die(const std::string& fault) {
  say("struck " + std::to_string(now()));
  if (fault == "kill") raise(SIGKILL);
  if (fault == "crash") {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  if (fault == "stop") raise(SIGSTOP);
  _exit(0);  // "exit", or killed while it was stopped
}

// Runs beside the rank's own thread.
void strike_later(Job& job) {
  std::thread([&job] {
    std::this_thread::sleep_for(std::chrono::milliseconds(job.delay));
    if (job.fault != "abort") die(job.fault);
    say("struck " + std::to_string(now()));
    ech_comm_abort(job.comm);
    ech_comm_abort(job.comm);
  }).detach();
}

bool sum_is_right(const Job& job, std::size_t first, std::size_t count) {
  const float wanted = static_cast<float>(job.size * (job.size + 1) / 2);
  for (std::size_t i = first; i < first + count; ++i)
    if (job.out[i] != wanted) return false;
  return true;
}

ech_status pending(Job& job) {
  ech_request* requests[4] = {};
  const std::size_t part = job.count / 4;
  for (int k = 0; k < 4; ++k) {
    const ech_status status = ech_iallreduce(&job.in[k * part], &job.out[k * part], part,
                                             ECH_FLOAT32, ECH_SUM, job.comm, nullptr, &requests[k]);
    if (status != ECH_OK) {
      const std::string text = ech_last_error();
      ech_wait_all(4, requests);
      return status;
    }
  }
  const ech_status status = ech_wait_all(4, requests);
  require(status != ECH_OK || sum_is_right(job, 0, 4 * part), "wrong sum");
  return status;
}

ech_status split(Job& job) {
  ech_comm* part = nullptr;
  const ech_status status = ech_comm_split(job.comm, 0, 0, &part);
  if (status != ECH_OK) return status;
  require(part != nullptr, "no part");
  return ech_comm_destroy(part);
}

ech_status idle(Job& job) {
  const ech_status status = ech_barrier(job.comm);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return status;
}

// The call that the rank repeats.
ech_status call(Job& job) {
  const std::string& m = job.moment;
  const std::size_t n = job.count;
  float *in = job.in.data(), *out = job.out.data();
  if (m == "allreduce" || m == "destroy" || m == "creation") {
    const ech_status status = ech_allreduce(in, out, n, ECH_FLOAT32, ECH_SUM, job.comm);
    require(status != ECH_OK || sum_is_right(job, 0, n), "wrong sum");
    return status;
  }
  if (m == "reduce_scatter") {
    const ech_status status =
        ech_reduce_scatter(in, out, n / job.size, ECH_FLOAT32, ECH_SUM, job.comm);
    require(status != ECH_OK || sum_is_right(job, 0, n / job.size), "wrong sum");
    return status;
  }
  if (m == "allgather") return ech_allgather(in, out, n / job.size, ECH_FLOAT32, job.comm);
  if (m == "broadcast") return ech_broadcast(in, out, n, ECH_FLOAT32, 1, job.comm);
  if (m == "reduce") return ech_reduce(in, out, n, ECH_FLOAT32, ECH_SUM, 1, job.comm);
  if (m == "barrier") return ech_barrier(job.comm);
  if (m == "pending") return pending(job);
  if (m == "split") return split(job);
  require(m == "idle", "unknown moment");
  return idle(job);
}

void tell_end(ech_status status) {
  say("ended " + std::to_string(status) + " " + std::to_string(now()) + " " + ech_last_error());
}

// Whatever is called after a failure fails alike, at once, and writes nothing. A split that fails
// halfway is a failure of the new communicator, of which nothing is left.
void check_dead(Job& job, ech_status status) {
  const auto begin = Clock::now();
  if (job.moment == "split") {
    require(ech_comm_abort(job.comm) == ECH_OK, "abort fails");
    status = ECH_ERR_ABORTED;
    if (ech_barrier(job.comm) != status) status = ech_barrier(job.comm);
  }
  std::vector<float> untouched(1000, -1);
  const ech_status again =
      ech_allreduce(job.in.data(), untouched.data(), 1000, ECH_FLOAT32, ECH_SUM, job.comm);
  require(again == status, "a later call has another status");
  require(untouched == std::vector<float>(1000, -1), "a failed call wrote");
  require(ech_barrier(job.comm) == status, "a later barrier has another status");
  require(ech_comm_abort(job.comm) == ECH_OK, "abort after a failure fails");
  ech_comm_destroy(job.comm);
  require(Clock::now() - begin < std::chrono::seconds(1), "the end took more than a second");
}

// Leaves as one moment asks for it; what is not `destroy` goes on until it fails.
ech_status run(Job& job) {
  const auto begin = Clock::now();
  int calls = 0;
  while (Clock::now() - begin < kGiveUp) {
    if (job.moment == "destroy" && calls == 10) {
      if (!job.fault.empty() && job.fault != "abort") die(job.fault);
      if (job.fault.empty()) return ECH_OK;
      say("struck " + std::to_string(now()));
      ech_comm_abort(job.comm);
      return ECH_OK;
    }
    const ech_status status = call(job);
    if (status != ECH_OK) return status;
    ++calls;
  }
  return ECH_OK;
}

int rank_main(Job job) {
  job.in.assign(job.count, static_cast<float>(std::atoi(std::getenv("ECHELON_RANK")) + 1));
  job.out.assign(job.count, 0);
  const bool culprit = !job.fault.empty();
  if (culprit && job.moment == "creation") strike_later(job);
  const ech_status made = ech_comm_create(&job.comm, nullptr);
  if (made != ECH_OK) {
    tell_end(made);
    return 0;
  }
  ech_comm_size(job.comm, &job.size);
  say("in " + std::to_string(getpid()));
  if (culprit && job.moment != "creation" && job.moment != "destroy") strike_later(job);
  const ech_status status = run(job);
  if (job.moment == "destroy" && status == ECH_OK) {
    tell_end(ech_comm_destroy(job.comm));
    return 0;
  }
  tell_end(status);
  if (status != ECH_OK) check_dead(job, status);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  Job job;
  job.moment = argv[1];
  job.count = std::strtoull(argv[2], nullptr, 10);
  if (argc > 4) {
    job.fault = argv[3];
    job.delay = std::atoi(argv[4]);
  }
  return rank_main(std::move(job));
}
