// SPDX-License-Identifier: Apache-2.0
// Large messages: `echelon perf` with the sizes and the time that bandwidth needs.
#include "tools/perf.h"

int main(int argc, char** argv) {
  echelon::perf::Settings preset;
  preset.min_bytes = 64 << 10;
  preset.max_bytes = 64 << 20;
  preset.factor = 4;
  preset.iterations = 20;
  preset.time_limit = 5;
  return echelon::tools::perf_program(argc, argv, preset,
                                      "Bandwidth of the collectives, 64 KiB to 64 MiB");
}
