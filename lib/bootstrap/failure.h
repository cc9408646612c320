// SPDX-License-Identifier: Apache-2.0
// An error as the payload of a kFailure message, and as the last thing that ranks are told.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/bootstrap/rendezvous.h"

namespace echelon {

std::string encode_failure(const Error& error);

// Throws ECH_ERR_INVALID when `payload` is not such a message.
Error decode_failure(const std::string& payload);

// What is said of a rank whose connection has closed and of which nobody knows more.
inline constexpr std::string_view kWithoutGoodbye =
    "closed its control connection without a goodbye";

// Whether a rank is blamed that may have left because of another's failure. Holds for what came
// from other ranks, too.
bool may_be_a_consequence(const Error& error);

// Tells those at the other ends, as far as there are channels, why nothing comes of it. Takes
// 0.1 s at most; who cannot be told sees the connection close.
void tell_all(const Channels& channels, const Error& error) noexcept;

}  // namespace echelon
