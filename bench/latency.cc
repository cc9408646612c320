// SPDX-License-Identifier: Apache-2.0
// Small messages: `echelon perf` with the sizes and the number of samples that latency needs.
#include "tools/perf.h"

int main(int argc, char** argv) {
  echelon::perf::Settings preset;
  preset.min_bytes = 4;
  preset.max_bytes = 8 << 10;
  preset.iterations = 1000;
  preset.warmups = 100;
  return echelon::tools::perf_program(argc, argv, preset,
                                      "Latency of the collectives, 4 B to 8 KiB");
}
