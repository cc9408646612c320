// SPDX-License-Identifier: Apache-2.0
// NVLink domains of several hosts, as a tier of a layout.
#pragma once

#include <vector>

#include "lib/fabric/fabric.h"
#include "lib/fabric/layout.h"

namespace echelon {

// `layout` with the tier `domain`, whose groups are `domains`, in the place of socket and host, and
// the network between domains; as it was, where every domain is one host. The way out of a domain
// is that of all its hosts together.
Layout over_domains(Layout layout, const Fabric& fabric, const std::vector<Group>& domains);

}  // namespace echelon
