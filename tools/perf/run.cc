// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/run.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tools/perf/comm.h"
#include "tools/perf/demo.h"
#include "tools/perf/doubts.h"
#include "tools/perf/sweep.h"
#include "tools/perf/table.h"

namespace echelon::perf {

std::uint64_t wrong_elements(const std::vector<Row>& rows) {
  std::uint64_t wrong = 0;
  for (const Row& row : rows) wrong += row.wrong.value_or(0);
  return wrong;
}

namespace {

// Which GPU is a rank's follows from the ranks of its host: there are others before it is taken.
std::unique_ptr<Device> open_on_all(const Comm& ranks, const OpenDevice& open) {
  std::unique_ptr<Device> device;
  std::string fault;
  try {
    device = open(ranks.local_rank());
  } catch (const Failure& e) {
    fault = e.what();
  }
  ranks.agree(fault, "--device cuda: another rank has no GPU, and says why");
  return device;
}

// The library says on all ranks what one of them lacks.
void require_collectives(const Comm& comm) {
  if (ech_barrier_on_stream(comm.get(), comm.device()->stream()) != ECH_OK)
    throw Failure(fmt::format("--device cuda: {}", ech_last_error()));
  comm.device()->wait();
}

std::uint64_t run_on(const Comm& comm, const Settings& settings) {
  if (settings.sweep) return sweep(comm, settings);
  if (settings.demo) return demo(comm, settings);
  if (settings.plans && comm.leader())
    fmt::print("{}{}\n{}\n", comm.fabric(), doubts_about_links(comm.fabric(ECH_JSON)),
               plans_text(comm, settings));
  const std::unique_ptr<Peer> peer = settings.vs_nccl ? comm.device()->nccl(comm) : nullptr;
  const std::vector<Row> rows = measure_table(comm, settings, comm, peer.get());
  if (settings.format == Format::kText && comm.leader())
    fmt::print("{}", doubts_about_bounds(rows));
  if (settings.stats && comm.leader()) {
    std::FILE* const out = settings.format == Format::kCsv ? stderr : stdout;
    fmt::print(out, "{}", statistics_text(settings.format, comm.statistics()));
  }
  return wrong_elements(rows);
}

}  // namespace

std::uint64_t run(const Settings& settings, const OpenDevice& open_device) {
  sizes(settings);  // contradictions are found before anything is connected
  if (!settings.cuda) return run_on(Comm(settings.algorithm), settings);
  const Comm ranks("");
  const std::unique_ptr<Device> device = open_on_all(ranks, open_device);
  const Comm comm(ranks, settings.algorithm, device.get());
  require_collectives(comm);
  return run_on(comm, settings);
}

}  // namespace echelon::perf
