// SPDX-License-Identifier: Apache-2.0
// The command line of perf. Everything else is in tools/perf/.
#include "tools/perf.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "tools/command_line.h"
#include "tools/perf/comm.h"
#include "tools/perf/run.h"
#include "tools/perf/words.h"
#include "tools/perf_cuda.h"

namespace echelon::tools {
namespace {

using perf::Form;
using perf::Format;
using perf::Settings;

constexpr const char* kExamples =
    "examples:\n"
    "  echelon run -n 4 -- echelon perf -b 8 -e 64M -f 4\n"
    "  echelon run --emulate 4x2:1gbit -- echelon perf -C all -o sum,max --format json\n"
    "  echelon run -n 3 -- echelon perf --check\n"
    "  echelon run -n 8 -- echelon perf --device cuda --stream --vs nccl\n"
    "bench/README.md says what is measured and how.\n";

// What only makes sense after all options are read.
struct Given {
  Settings settings;
  bool blocking = true;
  bool stream = false;
  std::optional<Option> collective, factor, time_limit;
};

bool placement(const std::string& text) {
  if (text == "out" || text == "0") return false;
  if (text == "in" || text == "1") return true;
  throw std::invalid_argument(fmt::format("\"{}\" is neither out nor in", text));
}

Parse size(std::size_t& bytes) { return into<std::size_t>(bytes, perf::required_bytes); }

void add_cases(Command& cmd, Given& given) {
  Settings& s = given.settings;
  given.collective = cmd.option(
      "-C,--collective NAMES",
      "Collectives, separated by commas, or all of " + perf::collective_words() + " [allreduce]",
      into<std::vector<ech_collective>>(s.collectives, perf::parse_collectives));
  cmd.option("-d,--datatype,--dtype TYPES",
             "Types, separated by commas, or all of " + perf::dtype_words() + " [f32]",
             into<std::vector<ech_dtype>>(s.dtypes, perf::parse_dtypes));
  cmd.option("-o,--op OPS", "Ops, separated by commas, or all of " + perf::op_words() + " [sum]",
             into<std::vector<ech_op>>(s.ops, perf::parse_ops));
  cmd.option("-b,--minbytes SIZE", fmt::format("Smallest size [{}]", s.min_bytes),
             size(s.min_bytes));
  cmd.option("-e,--maxbytes SIZE", fmt::format("Largest size [{}]", perf::bytes_text(s.max_bytes)),
             size(s.max_bytes));
  given.factor =
      cmd.option("-f,--stepfactor N", fmt::format("Factor from size to size [{}]", s.factor),
                 whole_number(s.factor, 2, 1 << 20));
  cmd.option("-i,--stepbytes SIZE", "Step from size to size, instead of a factor",
             size(s.step_bytes))
      .excludes(*given.factor);
  cmd.option("-r,--root RANK", fmt::format("Root of broadcast and reduce [{}]", s.root),
             whole_number(s.root, 0, std::numeric_limits<int>::max()));
}

void add_buffers(Command& cmd, Given& given) {
  Settings& s = given.settings;
  cmd.option("-O,--placement out|in", "Result beside (out) or over (in) the input [out]",
             into<bool>(s.in_place, placement));
  const Option blocking = cmd.option(
      "-z,--blocking 1|0", "1: blocking calls, 0: start and wait [1]", yes_or_no(given.blocking));
  cmd.flag("--stream", "In a CUDA stream, which is waited for", given.stream).excludes(blocking);
  cmd.option("--device host|cuda", "Buffers in host memory, or cuda: on a GPU of each rank [host]",
             into(s.cuda, one_of<bool>({{"host", false}, {"cuda", true}})));
  cmd.flag("--alloc", "Buffers from ech_alloc, which local ranks can map", s.shared_memory);
  cmd.option("--algorithm PLAN", "Plan to use, e.g. native/ring@1MiB", into(s.algorithm));
}

void add_sampling(Command& cmd, Given& given) {
  constexpr int kMost = 10000000;
  Settings& s = given.settings;
  cmd.option("-n,--iters N", fmt::format("Samples per size, at most [{}]", s.iterations),
             whole_number(s.iterations, 1, kMost));
  cmd.option("-w,--warmup_iters N",
             fmt::format("Operations before the first sample, at most [{}]", s.warmups),
             whole_number(s.warmups, 0, kMost));
  given.time_limit = cmd.option(
      "--time-limit SECONDS",
      fmt::format("Per size: slow sizes get fewer samples; 0: no limit [{}]", s.time_limit),
      number(s.time_limit, 0, 1e6));
  cmd.option("--sample-time SECONDS",
             fmt::format("Of a sample: as many operations as fit; 0: one [{}]", s.sample_time),
             number(s.sample_time, 0, 1e6));
  cmd.option("-c,--verify 1|0", "1: check every result, 0: do not [1]", yes_or_no(s.check));
}

void add_output(Command& cmd, Given& given) {
  Settings& s = given.settings;
  cmd.option("--format text|json|csv|osu", "How the results are written [text]",
             into(s.format, one_of<Format>({{"text", Format::kText},
                                            {"json", Format::kJson},
                                            {"csv", Format::kCsv},
                                            {"osu", Format::kOsu}})));
  cmd.flag("--plans", "Show the fabric and every plan first", s.plans);
  cmd.flag("--stats", "Say afterwards which rank and which link held up the others", s.stats);
  const Option check =
      cmd.flag("--check", "Check all types, ops, odd counts and places; do not measure", s.sweep);
  const Option demo =
      cmd.flag("--demo", "Fabric, plans, times, and the gain over a flat ring", s.demo)
          .excludes(check);
  cmd.option("--vs nccl", "NCCL's allreduce on the same CUDA memory, in turns with ours",
             into(s.vs_nccl, one_of<bool>({{"nccl", true}})))
      .excludes(check)
      .excludes(demo);
}

// Options that need others.
void require_company(const Given& given) {
  const Settings& s = given.settings;
  if (given.stream && !s.cuda) throw UsageError("--stream: needs --device cuda");
  if (!s.vs_nccl) return;
  if (!s.cuda) throw UsageError("--vs nccl: needs --device cuda");
  if (s.collectives != std::vector{ECH_ALLREDUCE})
    throw UsageError("--vs nccl: compares allreduce and nothing else");
  if (s.format == Format::kOsu) throw UsageError("--vs nccl: has no columns in the format osu");
}

// What --check and --demo mean for the options that were not given.
void complete(Given& given) {
  Settings& s = given.settings;
  s.form = given.stream ? Form::kStream : given.blocking ? Form::kBlocking : Form::kNonblocking;
  if (s.sweep && !given.collective->given()) s.collectives = perf::parse_collectives("all");
  if (!s.demo) return;
  s.end_at_max = true;
  s.least_iterations = 1;
  if (!given.factor->given()) s.factor = 8;
  if (!given.time_limit->given()) s.time_limit = 0.3;
}

void measure(const Settings& settings) {
  const std::uint64_t wrong = perf::run(settings, open_cuda);
  if (wrong != 0)
    throw perf::Failure(fmt::format("{} wrong elements on all ranks together", wrong));
}

void add_options(Command cmd, const Settings& preset) {
  const auto given = std::make_shared<Given>();
  given->settings = preset;
  add_cases(cmd, *given);
  add_buffers(cmd, *given);
  add_sampling(cmd, *given);
  add_output(cmd, *given);
  cmd.action([given] {
    require_company(*given);
    complete(*given);
    return run_subcommand("perf", [&] { measure(given->settings); });
  });
}

}  // namespace

int run_subcommand(const char* subcommand, const std::function<void()>& body) {
  const auto failed = [&](const char* what) {
    fmt::print(stderr, "echelon {}: {}\n", subcommand, what);
    return 1;
  };
  try {
    body();
    return 0;
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  } catch (const perf::Failure& e) {
    return failed(e.what());
  } catch (const std::bad_alloc&) {
    return failed("no memory");
  }
}

void add_perf(Program& program) {
  Command perf = program.command(
      "perf", "Measure and check the collectives over the ranks it is started with");
  perf.examples(kExamples);
  add_options(perf, {});
}

int perf_program(int argc, char** argv, const Settings& preset, const char* description) {
  Program program("echelon perf", description);
  add_options(program.itself(), preset);
  return program.run(argc, argv);
}

}  // namespace echelon::tools
