// SPDX-License-Identifier: Apache-2.0
// What a run of perf measures and how it shows it: plain data, filled by the command line.
#pragma once

#include <string>
#include <vector>

#include "echelon/echelon.h"
#include "tools/perf/statistics.h"

namespace echelon::perf {

enum class Format { kText, kJson, kCsv, kOsu };

// How an operation is called.
enum class Form { kBlocking, kNonblocking, kStream };

struct Settings {
  std::vector<ech_collective> collectives = {ECH_ALLREDUCE};
  std::vector<ech_dtype> dtypes = {ECH_FLOAT32};
  std::vector<ech_op> ops = {ECH_SUM};
  std::size_t min_bytes = 8;
  std::size_t max_bytes = 64 << 20;
  int factor = 2;              // each size is so many times the one before
  std::size_t step_bytes = 0;  // not 0: each size is so much more instead
  bool end_at_max = false;     // add max_bytes when the steps miss it
  int root = 0;
  bool in_place = false;
  Form form = Form::kBlocking;
  bool shared_memory = false;  // buffers from ech_alloc
  bool cuda = false;           // buffers on the rank's GPU
  bool vs_nccl = false;        // NCCL's allreduce in turns with ours

  int iterations = 100;  // samples per size, at most
  int least_iterations = 3;
  int warmups = 5;
  double time_limit = 2;             // s per size; 0: none
  double sample_time = kSampleTime;  // s that a sample should last; 0: one operation each
  bool check = true;

  Format format = Format::kText;
  bool plans = false;  // show fabric and plans first
  bool stats = false;  // say afterwards who held up whom
  bool sweep = false;  // check instead of measuring
  bool demo = false;
  std::string algorithm;  // "": the library chooses
};

// The sizes to measure, ascending. Throws std::invalid_argument when the settings contradict
// themselves or there would be more than 100000 sizes.
std::vector<std::size_t> sizes(const Settings& settings);

// One operation.
struct Case {
  ech_collective collective = ECH_ALLREDUCE;
  ech_dtype dtype = ECH_FLOAT32;
  ech_op op = ECH_SUM;
  int root = 0;
  std::size_t count = 0;  // as in the collective's own count
  bool in_place = false;
  std::size_t offset = 0;  // elements by which the buffers are off their natural alignment
};

std::size_t send_elements(const Case& c, int ranks);
std::size_t recv_elements(const Case& c, int ranks);

// The size that is reported: of the larger of both buffers.
std::size_t bytes_of(const Case& c, int ranks);

// The count that comes nearest to `bytes` from below, at least 1 unless `bytes` is 0.
std::size_t count_for(std::size_t bytes, const Case& c, int ranks);

}  // namespace echelon::perf
