// SPDX-License-Identifier: Apache-2.0
// A worker's address as the ranks exchange it. UCX believes every byte of an address, and reads
// beyond its end when some are missing. So it goes with its length and a checksum, and UCX sees it
// only when both fit. That is against mistakes: who may send one has been proved before.
#pragma once

#include <string>
#include <string_view>

namespace echelon {

std::string pack_ucx_address(std::string_view address);

// Throws ECH_ERR_INVALID naming the rank.
std::string unpack_ucx_address(std::string_view packed, int rank);

}  // namespace echelon
