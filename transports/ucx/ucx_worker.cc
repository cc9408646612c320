// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_worker.h"

#include <fmt/format.h>

#include <filesystem>

namespace echelon {
namespace {

ech_status code_of(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
      return ECH_ERR_NO_MEMORY;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_NO_ELEM:
      return ECH_ERR_INVALID;
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_UNSUPPORTED:
      return ECH_ERR_UNSUPPORTED;
    default:
      return ECH_ERR_SYSTEM;
  }
}

bool has_rdma() {
  std::error_code none;
  return !std::filesystem::is_empty("/sys/class/infiniband", none) && !none;
}

std::string rendezvous_threshold(const UcxConfig& config) {
  if (config.rendezvous_from) return std::to_string(*config.rendezvous_from);
  return has_rdma() ? "auto" : "inf";
}

std::string transports(const UcxConfig& config) {
  if (!config.tls.empty()) return config.tls;
  if (config.sockets) return config.shared_memory ? "all" : "^sm";
  return config.shared_memory ? "^tcp" : "^tcp,sm";
}

// UCX's settings, of which ours change those that the user has not set.
class Settings {
 public:
  explicit Settings(const UcxConfig& config) : config_(config) {
    require_ucx(ucp_config_read(nullptr, nullptr, &settings_), "ucx: reading the settings");
  }
  ~Settings() { ucp_config_release(settings_); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  void set(const std::string& name, const std::string& value) {
    if (config_.user_set && config_.user_set("UCX_" + name)) return;
    require_ucx(ucp_config_modify(settings_, name.c_str(), value.c_str()),
                fmt::format("ucx: setting {} to '{}'", name, value));
  }

  const ucp_config_t* get() const { return settings_; }

 private:
  const UcxConfig& config_;
  ucp_config_t* settings_ = nullptr;
};

void apply(const UcxConfig& config, Settings& settings) {
  settings.set("TLS", transports(config));
  if (!config.devices.empty()) {
    settings.set("NET_DEVICES", fmt::format("{}", fmt::join(config.devices, ",")));
  }
  settings.set("RNDV_THRESH", rendezvous_threshold(config));
  settings.set("MAX_EAGER_RAILS", std::to_string(config.rails));
  settings.set("MAX_RNDV_RAILS", std::to_string(config.rails));
  for (const auto& [name, value] : config.settings) settings.set(name, value);
}

ucp_context_h open_context(const UcxConfig& config) {
  Settings settings(config);
  apply(config, settings);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  require_ucx(ucp_init(&params, settings.get(), &context),
              fmt::format("ucx: opening transports '{}' on devices '{}'", transports(config),
                          fmt::join(config.devices, ",")));
  return context;
}

}  // namespace

void require_ucx(ucs_status_t status, const std::string& what) {
  if (status == UCS_OK) return;
  throw Error(code_of(status), fmt::format("{}: {}", what, ucs_status_string(status)));
}

UcxWorker::UcxWorker(const UcxConfig& config) : context_(open_context(config)) {
  try {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    require_ucx(ucp_worker_create(context_, &params, &worker_), "ucx: creating a worker");
    require_ucx(ucp_worker_get_efd(worker_, &fd_), "ucx: asking for the wake-up descriptor");
  } catch (...) {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    throw;
  }
}

UcxWorker::~UcxWorker() {
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

std::string UcxWorker::address() const {
  ucp_address_t* bytes = nullptr;
  std::size_t length = 0;
  require_ucx(ucp_worker_get_address(worker_, &bytes, &length), "ucx: asking for the address");
  std::string address(reinterpret_cast<const char*>(bytes), length);
  ucp_worker_release_address(worker_, bytes);
  return address;
}

}  // namespace echelon
