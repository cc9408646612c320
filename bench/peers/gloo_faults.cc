// SPDX-License-Identifier: Apache-2.0
// bench/faults with Gloo, under `echelon run`, whose variables say rank and size. GLOO_STORE is an
// empty folder that all ranks see.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>

#include "fault.h"

namespace {

std::shared_ptr<gloo::rendezvous::Context> context;

int step(int count, float* data, char* text, size_t room) try {
  gloo::AllreduceOptions options(context);
  options.setOutput(data, static_cast<size_t>(count));
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
  return 0;
} catch (const std::exception& e) {
  std::snprintf(text, room, "%s", e.what());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int rank = std::atoi(std::getenv("ECHELON_RANK"));
  const int size = std::atoi(std::getenv("ECHELON_SIZE"));
  gloo::transport::tcp::attr attributes;
  attributes.iface = std::getenv("GLOO_INTERFACE");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(std::getenv("GLOO_STORE"));
  context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  fault_run(argc, argv, size, step);
}
