// SPDX-License-Identifier: Apache-2.0
// N ranks in one test: as threads, or as processes forked from it.
#pragma once

#include <chrono>
#include <functional>

namespace echelon::test {

using RankBody = std::function<void(int rank)>;

inline constexpr std::chrono::seconds kDefaultLimit{60};

#ifdef ECHELON_SANITIZED  // by meson.build, where -Db_sanitize asks for one
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
// How much longer things may take than what is promised: sanitizers make programs slow.
inline constexpr int kSlowness = kSanitized ? 5 : 1;

// Runs body(0..n-1), each in a process of its own. A gtest failure, exception, crash or a run
// past `limit` in any of them fails the calling test; after `limit` the rest is killed. Call it
// before the calling process has threads of its own.
void run_processes(int n, const RankBody& body, std::chrono::seconds limit = kDefaultLimit);

// The same with threads. A run past `limit` ends the test program (threads cannot be killed).
void run_threads(int n, const RankBody& body, std::chrono::seconds limit = kDefaultLimit);

}  // namespace echelon::test
