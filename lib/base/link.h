// SPDX-License-Identifier: Apache-2.0
// What a link costs, and who says so.
#pragma once

#include <string_view>

namespace echelon {

enum class LinkKind { kSelf, kShm, kNvlink, kPcie, kInfiniband, kRoce, kEthernet, kWan };

// Where a number comes from, most to least trusted.
enum class Source { kFile, kMeasured, kDevice, kDefault };

struct Link {
  LinkKind kind = LinkKind::kShm;
  double latency = 0;                // s, one way, smallest message
  double bytes_per_second = 0;       // one direction, one stream that has the link to itself
  Source source = Source::kDefault;  // of the bandwidth
  Source latency_source = Source::kDefault;  // of the latency
};

std::string_view name(LinkKind kind);  // "shm", "nvlink", ...
std::string_view name(Source source);  // "file", "measured", ...

}  // namespace echelon
