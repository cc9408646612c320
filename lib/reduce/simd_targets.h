// SPDX-License-Identifier: Apache-2.0
// The instruction sets that are compiled: AVX-512, AVX2 and NEON. Other processors run the plain
// kernels, which take the place of Highway's emulation. To be included before Highway's headers.
#pragma once

#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_NEON | HWY_EMU128 | HWY_SCALAR))
