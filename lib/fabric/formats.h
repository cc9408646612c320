// SPDX-License-Identifier: Apache-2.0
// A Fabric as text: a tree for people, TOML and JSON for machines, and back. TOML is also what
// people write by hand (docs/fabric.md): there a host may be a pattern and most keys are left out.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/fabric/document.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/place.h"

namespace echelon {

// ---- documents

// Throws ECH_ERR_INVALID, "file:line: ...". `file` is only used in messages.
Document parse_toml(std::string_view text, std::string_view file);
Document parse_json(std::string_view text, std::string_view file);
std::string write_toml(const Document& document);
std::string write_json(const Document& document, bool compact = false);

// ---- fabrics

// What a file says of the hosts that match a pattern.
struct HostRule {
  std::string match;
  Host host;  // nic names may be patterns too; unknown where the file says nothing
  struct NicSaid {
    bool kind = false, up = false;
  };
  std::vector<NicSaid> nic_said;  // one per host.nics
};

struct RackRule {
  std::string name;                // may be a counting pattern, with `size`
  std::vector<std::string> hosts;  // patterns
  Quantity uplink;
  int size = 0;  // hosts per rack, in order; 0: all of them in one
};

struct FabricFile {
  std::string name;
  std::string file;  // for messages
  std::vector<HostRule> hosts;
  std::vector<RackRule> racks;
  std::vector<TierNumbers> tiers;
  std::vector<std::string> warnings;
};

inline constexpr std::size_t kMostHosts = 1 << 16;

FabricFile read_fabric(const Document& document, std::string_view file);
// By the text's first character: '{' is JSON.
FabricFile parse_fabric_file(std::string_view text, std::string_view file);
FabricFile load_fabric_file(const std::string& path);

// The fabric that the file describes by itself: every host that its patterns count up.
Fabric expand(const FabricFile& file);
// What the file says overrides what was discovered; what it says in vain becomes a warning.
void apply(const FabricFile& file, Fabric& fabric);

Document to_document(const Fabric& fabric);
std::string to_toml(const Fabric& fabric);
std::string to_json(const Fabric& fabric);
// `places` (may be empty) are shown below their hosts.
std::string to_text(const Fabric& fabric, std::span<const RankPlace> places = {});

// What ranks tell each other. host_from_wire() trusts nothing: ECH_ERR_INVALID on anything else.
inline constexpr std::size_t kMostWireBytes = 1 << 20;
std::string to_wire(const Host& host);
Host host_from_wire(std::string_view bytes);

}  // namespace echelon
