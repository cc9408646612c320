// SPDX-License-Identifier: Apache-2.0
// An error as the payload of a kFailure message.
#pragma once

#include <string>

#include "lib/base/error.h"

namespace echelon {

std::string encode_failure(const Error& error);

// Throws ECH_ERR_INVALID when `payload` is not such a message.
Error decode_failure(const std::string& payload);

}  // namespace echelon
