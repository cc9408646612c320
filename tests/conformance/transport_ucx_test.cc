// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/transport_suite.h"
#include "transports/ucx/ucx.h"

namespace echelon::test {
namespace {

TransportKind kind(const std::string& name, bool processes, const std::string& tls) {
  UcxConfig config;
  config.tls = tls;
  const bool tcp = tls == "tcp";
  if (tcp) config.devices = {"lo"};
  if (!tcp) config.local = [](int) { return true; };
  return {name, processes, [config] { return open_ucx(config); }, tcp};
}

// Processes first: once this process has threads it must not fork.
INSTANTIATE_TEST_SUITE_P(Ucx, MortalTransportSuite,
                         testing::Values(kind("tcp_processes", true, "tcp")), kind_name);
INSTANTIATE_TEST_SUITE_P(Ucx, TransportSuite,
                         testing::Values(kind("tcp_processes", true, "tcp"),
                                         kind("shm_processes", true, "sm"),
                                         kind("tcp_threads", false, "tcp")),
                         kind_name);

}  // namespace
}  // namespace echelon::test
