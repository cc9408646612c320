// SPDX-License-Identifier: Apache-2.0
// A communicator as perf uses it: every failing call becomes one line that names call and rank.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "echelon/echelon.h"
#include "tools/perf/device.h"
#include "tools/perf/settings.h"

namespace echelon::perf {

// Ends this rank: its text is the line to print.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct PredictedPlan {
  std::string name;
  double us = 0;
};

// What ech_comm_explain says of one operation.
struct Plan {
  std::string name;
  std::optional<double> predicted_us;
  std::optional<double> bound_us;
  std::string reason;
  std::string bound_reason;
  std::vector<PredictedPlan> others;  // cheapest first
};

// "ring" of "ring@1MiB".
std::string_view without_segment(std::string_view plan);

class Comm {
 public:
  // With the launcher's ranks, however they find each other.
  explicit Comm(const std::string& algorithm);

  // With the ranks of `parent`, which find each other through it, and its device.
  Comm(const Comm& parent, const std::string& algorithm)
      : Comm(parent, algorithm, parent.device_) {}

  // With a GPU, which must outlive it. nullptr: without.
  Comm(const Comm& parent, const std::string& algorithm, Device* device);

  // Leaving by an exception aborts the operations of the other ranks.
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int hosts() const { return hosts_; }
  int local_rank() const { return local_rank_; }
  int host() const { return host_; }
  bool leader() const { return rank_ == 0; }
  ech_comm* get() const { return comm_; }
  Device* device() const { return device_; }  // nullptr: buffers are the host's

  // Throws Failure unless `status` is ECH_OK.
  void require(ech_status status, const char* call) const;

  // Over all ranks, collective.
  double max(double value) const;
  double sum(double value) const;
  void max(std::span<double> values) const;
  bool same_everywhere(std::uint64_t value) const;
  void barrier() const;
  void set_algorithm(const std::string& plan) const;   // "": as the library chooses
  std::string gather(const std::string& bytes) const;  // as many on each rank, by rank

  // Throws Failure on all ranks when `fault` is not "" on one: that, or `elsewhere`.
  void agree(const std::string& fault, const std::string& elsewhere) const;

  std::string fabric(ech_format format = ECH_TEXT) const;
  ech_stats statistics() const;
  Plan explain(const Case& c) const;

 private:
  void create(const ech_comm_options& options);

  // Constant after construction.
  ech_comm* comm_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  int hosts_ = 1;
  int local_rank_ = 0;
  int host_ = 0;
  Device* device_ = nullptr;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace echelon::perf
