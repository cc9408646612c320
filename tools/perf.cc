// SPDX-License-Identifier: Apache-2.0
// The command line of perf. Everything else is in tools/perf/.
#include "tools/perf.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <memory>
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
  CLI::Option* collective = nullptr;
  CLI::Option* factor = nullptr;
  CLI::Option* time_limit = nullptr;
};

bool placement(const std::string& text) {
  if (text == "out" || text == "0") return false;
  if (text == "in" || text == "1") return true;
  throw std::invalid_argument(fmt::format("\"{}\" is neither out nor in", text));
}

void add_what(CLI::App& app, Given& given) {
  Settings& s = given.settings;
  given.collective = add_parsed<std::vector<ech_collective>>(app, "-C,--collective", s.collectives,
                                                             perf::parse_collectives)
                         ->description("Collectives, separated by commas, or all of " +
                                       perf::collective_words() + " [allreduce]");
  add_parsed<std::vector<ech_dtype>>(app, "-d,--datatype,--dtype", s.dtypes, perf::parse_dtypes)
      ->description("Types, separated by commas, or all of " + perf::dtype_words() + " [f32]");
  add_parsed<std::vector<ech_op>>(app, "-o,--op", s.ops, perf::parse_ops)
      ->description("Ops, separated by commas, or all of " + perf::op_words() + " [sum]");
  add_parsed<std::size_t>(app, "-b,--minbytes", s.min_bytes, perf::required_bytes)
      ->description(fmt::format("Smallest size [{}]", s.min_bytes));
  add_parsed<std::size_t>(app, "-e,--maxbytes", s.max_bytes, perf::required_bytes)
      ->description(fmt::format("Largest size [{}]", perf::bytes_text(s.max_bytes)));
  given.factor = app.add_option("-f,--stepfactor", s.factor, "Factor from size to size")
                     ->check(CLI::Range(2, 1 << 20))
                     ->capture_default_str();
  add_parsed<std::size_t>(app, "-i,--stepbytes", s.step_bytes, perf::required_bytes)
      ->description("Step from size to size, instead of a factor")
      ->excludes(given.factor);
  app.add_option("-r,--root", s.root, "Root of broadcast and reduce")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_parsed<bool>(app, "-O,--placement", s.in_place, placement)
      ->description("Result beside (out) or over (in) the input [out]");
  CLI::Option* const blocking =
      app.add_option("-z,--blocking", given.blocking, "1: blocking calls, 0: start and wait")
          ->capture_default_str();
  app.add_flag("--stream", given.stream, "In a CUDA stream, which is waited for")
      ->excludes(blocking);
  add_parsed(app, "--device", s.cuda, one_of<bool>({{"host", false}, {"cuda", true}}))
      ->description("Buffers in host memory, or cuda: on a GPU of each rank [host]");
  app.add_flag("--alloc", s.shared_memory, "Buffers from ech_alloc, which local ranks can map");
  app.add_option("--algorithm", s.algorithm, "Plan to use, e.g. native/ring@1MiB")
      ->option_text("PLAN");
}

void add_how(CLI::App& app, Given& given) {
  Settings& s = given.settings;
  app.add_option("-n,--iters", s.iterations, "Samples per size, at most")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  app.add_option("-w,--warmup_iters", s.warmups, "Operations before the first sample, at most")
      ->check(CLI::Range(0, 10000000))
      ->capture_default_str();
  given.time_limit = app.add_option("--time-limit", s.time_limit,
                                    "Seconds per size: slow sizes get fewer samples; 0: no limit")
                         ->check(CLI::Range(0.0, 1e6))
                         ->capture_default_str();
  app.add_option("-c,--verify", s.check, "1: check every result, 0: do not")->capture_default_str();
  add_parsed(app, "--format", s.format,
             one_of<Format>({{"text", Format::kText},
                             {"json", Format::kJson},
                             {"csv", Format::kCsv},
                             {"osu", Format::kOsu}}))
      ->description("text, json, csv or osu [text]");
  app.add_flag("--plans", s.plans, "Show the fabric and every plan first");
  app.add_flag("--stats", s.stats, "Say afterwards which rank and which link held up the others");
  CLI::Option* const check = app.add_flag(
      "--check", s.sweep, "Check all types, ops, odd counts and places; do not measure");
  CLI::Option* const demo =
      app.add_flag("--demo", s.demo, "Fabric, plans, times, and the gain over a flat ring")
          ->excludes(check);
  add_parsed(app, "--vs", s.vs_nccl, one_of<bool>({{"nccl", true}}))
      ->description("nccl: NCCL's allreduce on the same CUDA memory, in turns with ours")
      ->excludes(check)
      ->excludes(demo);
}

// Options that need others.
void require_company(const Given& given) {
  const Settings& s = given.settings;
  if (given.stream && !s.cuda) throw CLI::ValidationError("--stream", "needs --device cuda");
  if (!s.vs_nccl) return;
  if (!s.cuda) throw CLI::ValidationError("--vs nccl", "needs --device cuda");
  if (s.collectives != std::vector{ECH_ALLREDUCE})
    throw CLI::ValidationError("--vs nccl", "compares allreduce and nothing else");
  if (s.format == Format::kOsu)
    throw CLI::ValidationError("--vs nccl", "has no columns in the format osu");
}

// What --check and --demo mean for the options that were not given.
void complete(Given& given) {
  Settings& s = given.settings;
  s.form = given.stream ? Form::kStream : given.blocking ? Form::kBlocking : Form::kNonblocking;
  if (s.sweep && given.collective->count() == 0) s.collectives = perf::parse_collectives("all");
  if (!s.demo) return;
  s.end_at_max = true;
  s.least_iterations = 1;
  if (given.factor->count() == 0) s.factor = 8;
  if (given.time_limit->count() == 0) s.time_limit = 0.3;
}

void measure(const Settings& settings) {
  const std::uint64_t wrong = perf::run(settings, open_cuda);
  if (wrong != 0)
    throw perf::Failure(fmt::format("{} wrong elements on all ranks together", wrong));
}

void add_options(CLI::App& app, const Settings& preset) {
  const auto given = std::make_shared<Given>();
  given->settings = preset;
  add_what(app, *given);
  add_how(app, *given);
  app.callback([given] {
    require_company(*given);
    complete(*given);
    run_subcommand("perf", [&] { measure(given->settings); });
  });
}

}  // namespace

void run_subcommand(const char* subcommand, const std::function<void()>& body) {
  const auto failed = [&](const char* what) {
    fmt::print(stderr, "echelon {}: {}\n", subcommand, what);
    return CLI::RuntimeError(1);
  };
  try {
    body();
  } catch (const std::invalid_argument& e) {
    throw CLI::ValidationError(e.what());
  } catch (const perf::Failure& e) {
    throw failed(e.what());
  } catch (const std::bad_alloc&) {
    throw failed("no memory");
  }
}

void add_perf(CLI::App& app) {
  CLI::App* const perf = app.add_subcommand(
      "perf", "Measure and check the collectives over the ranks it is started with");
  perf->footer(kExamples);
  add_options(*perf, {});
}

int perf_program(int argc, char** argv, const Settings& preset, const char* description) {
  CLI::App app(description);
  app.option_defaults()->take_last();
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("echelon perf: {}\n", error.what());
  });
  add_options(app, preset);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& e) {
    return e.get_exit_code();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace echelon::tools
