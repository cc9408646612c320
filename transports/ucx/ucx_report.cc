// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include <memory>
#include <span>

#include "transports/ucx/ucx.h"
#include "transports/ucx/ucx_quiet.h"

namespace echelon {
namespace {

struct Release {
  void operator()(uct_component_h* components) const { uct_release_component_list(components); }
  void operator()(uct_tl_resource_desc_t* list) const { uct_release_tl_resource_list(list); }
  void operator()(uct_md* domain) const { uct_md_close(domain); }
  void operator()(uct_md_config_t* settings) const { uct_config_release(settings); }
};

using Components = std::unique_ptr<uct_component_h, Release>;
using Transports = std::unique_ptr<uct_tl_resource_desc_t, Release>;
using Domain = std::unique_ptr<uct_md, Release>;
using DomainSettings = std::unique_ptr<uct_md_config_t, Release>;

std::vector<uct_md_resource_desc_t> domains_of(uct_component_h component) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &attributes) != UCS_OK) return {};
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (uct_component_query(component, &attributes) != UCS_OK) return {};
  return domains;
}

// A domain that cannot be opened has nothing to offer, as for UCX itself.
Domain open_domain(uct_component_h component, const char* name) {
  uct_md_config_t* settings = nullptr;
  if (uct_md_config_read(component, nullptr, nullptr, &settings) != UCS_OK) return nullptr;
  const DomainSettings owner(settings);
  uct_md_h domain = nullptr;
  if (uct_md_open(component, name, settings, &domain) != UCS_OK) return nullptr;
  return Domain(domain);
}

void add_resources(uct_component_h component, std::vector<UcxResource>& out) {
  for (const uct_md_resource_desc_t& described : domains_of(component)) {
    const Domain domain = open_domain(component, described.md_name);
    uct_tl_resource_desc_t* list = nullptr;
    unsigned count = 0;
    if (!domain || uct_md_query_tl_resources(domain.get(), &list, &count) != UCS_OK) continue;
    const Transports owner(list);
    for (const uct_tl_resource_desc_t& r : std::span(list, count))
      out.push_back({r.tl_name, r.dev_name, r.dev_type == UCT_DEVICE_TYPE_NET});
  }
}

}  // namespace

UcxVersions ucx_versions() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return {fmt::format("{}.{}", UCP_API_MAJOR, UCP_API_MINOR),
          fmt::format("{}.{}.{}", major, minor, release)};
}

std::vector<UcxResource> ucx_resources() {
  const UcxQuiet quiet;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) != UCS_OK) return {};
  const Components owner(components);
  std::vector<UcxResource> resources;
  for (uct_component_h component : std::span(components, count))
    add_resources(component, resources);
  return resources;
}

}  // namespace echelon
