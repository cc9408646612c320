// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of the C ABI are.
#pragma once

#include <memory>

#include "lib/communicator.h"

struct ech_comm {
  std::unique_ptr<echelon::Communicator> communicator;
};

struct ech_request {
  echelon::Communicator* communicator = nullptr;
  echelon::Operation* operation = nullptr;  // nullptr: there was nothing to do
};
