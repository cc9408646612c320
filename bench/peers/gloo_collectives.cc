// SPDX-License-Identifier: Apache-2.0
// Gloo's collectives on f32, timed as timing.h says, under `echelon run`, whose variables say rank
// and size. GLOO_STORE is an empty folder that all ranks see, GLOO_INTERFACE names the network.
//   gloo_collectives COLLECTIVE SIZE...      one row per size
//   gloo_collectives COLLECTIVE -n N SIZE    N operations, nothing else (for counters)
// COLLECTIVE: allreduce_ring, allreduce_bcube, reduce_scatter, allgather or broadcast.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "timing.h"

namespace {

std::shared_ptr<gloo::rendezvous::Context> context;
std::vector<float> in, out;
std::size_t block;  // elements of one rank's block, or of the whole buffer
std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> scatter;

using Sum = void (*)(void*, const void*, const void*, std::size_t);

void allreduce(gloo::AllreduceOptions::Algorithm algorithm) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(algorithm);
  options.setInput(in.data(), in.size());
  options.setOutput(out.data(), out.size());
  options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
  gloo::allreduce(options);
}
void ring() { allreduce(gloo::AllreduceOptions::Algorithm::RING); }
void bcube() { allreduce(gloo::AllreduceOptions::Algorithm::BCUBE); }

// In place only: the sum of what is there is taken again and again, so nothing is checked.
void reduce_scatter() { scatter->run(); }

void allgather() {
  gloo::AllgatherOptions options(context);
  options.setInput(in.data(), in.size());
  options.setOutput(out.data(), out.size());
  gloo::allgather(options);
}

// In place, as MPI_Bcast is.
std::vector<float>& broadcast_data() { return context->rank == 0 ? in : out; }
void broadcast() {
  gloo::BroadcastOptions options(context);
  options.setOutput(broadcast_data().data(), block);
  options.setRoot(0);
  gloo::broadcast(options);
}

float sum_here(std::size_t e) { return timing_sum(e, context->size); }
float from_its_rank(std::size_t e) { return timing_input(e % block, static_cast<int>(e / block)); }
float from_root(std::size_t e) { return timing_input(e, 0); }

struct Collective {
  const char* name;
  void (*call)();
  float (*expected)(std::size_t element);  // null: not checked
  bool blocks_in, blocks_out;
};
constexpr Collective kCollectives[] = {
    {"allreduce_ring", ring, sum_here, false, false},
    {"allreduce_bcube", bcube, sum_here, false, false},
    {"reduce_scatter", reduce_scatter, nullptr, true, true},
    {"allgather", allgather, from_its_rank, false, true},
    {"broadcast", broadcast, from_root, false, false},
};

void barrier() {
  gloo::BarrierOptions options(context);
  gloo::barrier(options);
}

double combine(double mine, int largest) {
  double all = 0;
  gloo::AllreduceOptions options(context);
  options.setInput(&mine, 1);
  options.setOutput(&all, 1);
  options.setReduceFunction(largest != 0 ? static_cast<Sum>(&gloo::max<double>)
                                         : static_cast<Sum>(&gloo::sum<double>));
  gloo::allreduce(options);
  return all;
}

std::vector<float> buffer(std::size_t elements) {
  std::vector<float> values(elements);
  for (std::size_t e = 0; e < elements; ++e) values[e] = timing_input(e, context->rank);
  return values;
}

void prepare(const Collective& of, std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(context->size);
  const bool blocks = of.blocks_in || of.blocks_out;
  block = std::max<std::size_t>(1, bytes / sizeof(float) / (blocks ? ranks : 1));
  in = buffer(block * (of.blocks_in ? ranks : 1));
  out = buffer(block * (of.blocks_out ? ranks : 1));
  if (of.call != reduce_scatter) return;
  scatter = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
      context, std::vector<float*>{in.data()}, static_cast<int>(in.size()),
      std::vector<int>(ranks, static_cast<int>(block)));
}

// `operations`: how many to call, untimed; 0: as many as timing takes.
void measure(const Collective& of, std::size_t bytes, int operations) {
  prepare(of, bytes);
  const timed_call timed{of.call, barrier, combine, of.call == broadcast, context->rank == 0};
  timing median{};
  if (operations == 0) median = timing_median(&timed);
  for (int i = 0; i < operations; ++i) of.call();
  double wrong = 0;
  const std::vector<float>& result = of.call == broadcast ? broadcast_data() : out;
  for (std::size_t e = 0; e < result.size() && of.expected != nullptr && operations == 0; ++e)
    wrong += result[e] != of.expected(e) ? 1 : 0;
  wrong = combine(wrong, 0);
  if (context->rank == 0)
    timing_print(std::max(in.size(), out.size()) * sizeof(float), median, wrong);
}

void connect() {
  gloo::transport::tcp::attr attributes;
  attributes.iface = std::getenv("GLOO_INTERFACE");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(std::getenv("GLOO_STORE"));
  context = std::make_shared<gloo::rendezvous::Context>(std::atoi(std::getenv("ECHELON_RANK")),
                                                        std::atoi(std::getenv("ECHELON_SIZE")));
  context->connectFullMesh(store, device);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const Collective* of = nullptr;
  for (const Collective& one : kCollectives)
    if (!words.empty() && words[0] == one.name) of = &one;
  if (of == nullptr) {
    std::fprintf(stderr, "usage: gloo_collectives COLLECTIVE [-n N] SIZE...\n");
    return 2;
  }
  connect();
  const bool counted = words.size() > 2 && words[1] == "-n";
  for (std::size_t i = counted ? 3 : 1; i < words.size(); ++i)
    measure(*of, std::stoull(words[i]), counted ? std::stoi(words[2]) : 0);
  return 0;
}
