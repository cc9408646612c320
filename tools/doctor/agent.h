// SPDX-License-Identifier: Apache-2.0
// The doctor on one of several hosts: answers the questions of examiner.h, a line of JSON each, on
// stdin and stdout, until stdin ends.
//
//   {"ask": "report", "hosts": 2, "ranks": 4, "local_ranks": 2}
//                                        {"report": {...}, "port": 40123}
//   {"ask": "time"}                      {"time": 1763722800.25}, seconds since 1970
//   {"ask": "reach", "limit": 3, "targets": [{"host": "b", "port": 40124}]}
//                                        {"reached": [{"outcome", "address", "detail"}]}
//   anything that cannot be done         {"error": "..."}
//
// The port is open from the first line to the last, for the others to try.
#pragma once

namespace echelon::doctor {

int agent_main();  // the exit code of `echelon doctor --agent`

}  // namespace echelon::doctor
