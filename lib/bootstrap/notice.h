// SPDX-License-Identifier: Apache-2.0
// The news, for a rank that did not come to a reunion, that the others have gone on without it. It
// is written to the rank's standby listener and needs no answer: it lies in the kernel until the
// rank looks, however late. What it says stays true, so that repeating it does no harm.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/bootstrap/standby.h"

namespace echelon {

// As long as a Hello, and told apart from one by its proof.
std::string encode_notice(const Standby& standby, int to);

// The seat that left it for us; nothing when it is no such message.
std::optional<int> decode_notice(const Standby& standby, std::string_view hello);

// To all of `seats` that can be reached within a moment. Throws like dial().
void leave_notices(const Standby& standby, const std::vector<int>& seats);

}  // namespace echelon
