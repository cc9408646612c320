// SPDX-License-Identifier: Apache-2.0
// What the bootstrap tests share: identities on loopback, time bounds, expected errors.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "lib/bootstrap/rendezvous.h"

namespace echelon::test {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline Deadline in(milliseconds time) { return Clock::now() + time; }

inline JoinOptions within(milliseconds time) {
  JoinOptions options;
  options.deadline = in(time);
  return options;
}

inline constexpr milliseconds kLong{20'000};

inline Identity at(const Address& root, int rank, int size) {
  Identity identity;
  identity.rank = rank;
  identity.size = size;
  identity.host = root.host();
  identity.port = root.port();
  return identity;
}

// Fails unless `body` throws `code` with every one of `words` in its message, within `bound`.
inline void expect_error(ech_status code, const std::vector<std::string>& words, milliseconds bound,
                         const std::function<void()>& body) {
  const auto start = Clock::now();
  try {
    body();
    ADD_FAILURE() << "no error; expected status " << code;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    for (const std::string& word : words)
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos)
          << "\"" << word << "\" is not in: " << e.what();
  }
  EXPECT_LE(Clock::now() - start, bound);
}

}  // namespace echelon::test
