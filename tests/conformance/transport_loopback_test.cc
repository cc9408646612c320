// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/transport_suite.h"
#include "transports/loopback/loopback_transport.h"

namespace echelon::test {

INSTANTIATE_TEST_SUITE_P(Loopback, TransportSuite,
                         testing::Values(TransportKind{"threads", false, open_loopback}),
                         kind_name);

}  // namespace echelon::test
