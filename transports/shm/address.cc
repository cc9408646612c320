// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/address.h"

#include <fmt/format.h>

#include <climits>

#include "lib/base/bytes.h"
#include "lib/base/error.h"

namespace echelon::shm {

std::string Address::pack() const {
  return ByteWriter()
      .text(host)
      .u64(pid_namespace)
      .u64(net_namespace)
      .u32(pid)
      .u32(fd)
      .u64(nonce)
      .u64(header)
      .take();
}

Address Address::parse(std::string_view bytes) {
  ByteReader reader(bytes, "shared memory address");
  Address a{reader.text(), reader.u64(), reader.u64(), reader.u32(),
            reader.u32(),  reader.u64(), reader.u64()};
  reader.expect_end();
  if (a.pid == 0 || a.pid > INT_MAX || a.fd > INT_MAX)
    throw invalid(fmt::format("shared memory address: pid {}, descriptor {}", a.pid, a.fd));
  return a;
}

}  // namespace echelon::shm
