// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace echelon {

// Segments under way at once, at most, and so the lanes of engines and groups. The same on every
// rank, whatever group it is in: the numbers that name messages depend on it (lib/engine/engine.h).
inline constexpr int kPipelineDepth = 8;

}  // namespace echelon
