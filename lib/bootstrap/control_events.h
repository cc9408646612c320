// SPDX-License-Identifier: Apache-2.0
// What an event of the control's epoll set is about: a rank's channel, its process, or a wake-up.
#pragma once

#include <cstdint>

namespace echelon {

inline constexpr std::uint32_t kPokeEvent = UINT32_MAX;
inline constexpr std::uint32_t kProcessEvent = 1u << 31;  // | rank: its process has ended

}  // namespace echelon
