// SPDX-License-Identifier: Apache-2.0
// Numbers with units, as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace echelon {

// Beyond these a number is absurd rather than fast or slow.
inline constexpr double kMostBytesPerSecond = 1e14;
inline constexpr double kMostSeconds = 100;

// "1 gbit/s", "25 GB/s", "100 Mbit/s", "12 B/s". nothing: not a bandwidth, or an absurd one.
std::optional<double> parse_bandwidth(std::string_view text);
// "25 us", "300 ns", "1.5 ms", "1 s", in seconds.
std::optional<double> parse_time(std::string_view text);
// "512 KiB", "16 GiB", "64 B".
std::optional<std::uint64_t> parse_size(std::string_view text);

// The shortest text that parses back to exactly the same number.
std::string format_bandwidth(double bytes_per_second);
std::string format_time(double seconds);
std::string format_size(std::uint64_t bytes);

// For people: three digits. `bits`: network links are named in bits.
std::string show_bandwidth(double bytes_per_second, bool bits);
std::string show_time(double seconds);

}  // namespace echelon
