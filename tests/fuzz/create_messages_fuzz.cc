// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other while a communicator is made: any bytes give something that reads back
// the same, or ECH_ERR_INVALID. The addresses of shared memory among it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "lib/introduction.h"
#include "transports/shm/address.h"

namespace {

using namespace echelon;

template <typename Check>
void or_refuse(const Check& check) {
  try {
    check();
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  or_refuse([&] {
    const Introduction i = introduction_from_wire(input);
    const std::string bytes = to_wire(i);
    if (to_wire(introduction_from_wire(bytes)) != bytes) std::abort();
    for (const char c : i.host_name)
      if (c < 0x20) std::abort();
  });
  or_refuse([&] {
    if (to_wire(media_addresses_from_wire(input)) != input) std::abort();
  });
  or_refuse([&] {
    const std::string bytes = to_wire(shared_files_from_wire(input));
    if (to_wire(shared_files_from_wire(bytes)) != bytes) std::abort();
  });
  or_refuse([&] {
    if (to_wire(measured_link_from_wire(input)) != input) std::abort();
  });
  or_refuse([&] {
    if (shm::Address::parse(input).pack() != input) std::abort();
  });
  return 0;
}
