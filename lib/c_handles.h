// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of the C ABI are.
#pragma once

#include <memory>
#include <vector>

#include "lib/communicator.h"

// Its communicator owns it until it is waited for.
struct ech_request {
  ech_comm* comm = nullptr;
  std::size_t index = 0;                    // in comm->requests
  echelon::Operation* operation = nullptr;  // nullptr: there was nothing to do on host memory
  echelon::DeviceEngine::Call on_gpu;       // the same on a GPU's
};

struct ech_comm {
  std::unique_ptr<echelon::Communicator> communicator;
  std::vector<std::unique_ptr<ech_request>> requests;  // in no order
};
