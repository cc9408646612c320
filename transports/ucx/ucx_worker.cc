// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "lib/base/descriptors.h"
#include "lib/base/join.h"
#include "transports/ucx/ucx_address.h"
#include "transports/ucx/ucx_leftovers.h"
#include "transports/ucx/ucx_quiet.h"
#include "transports/ucx/ucx_sockets.h"

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

// Throws what a UCX call that failed deserves, with what UCX said about it.
void require(ucs_status_t status, const std::string& what, const UcxQuiet& quiet) {
  if (status == UCS_OK) return;
  const std::string reason = quiet.text().empty() ? "" : ": " + quiet.text();
  throw Error(code_of(status), fmt::format("{}: {}{}", what, ucs_status_string(status), reason));
}

bool is_set(const UcxConfig& config, std::string_view variable) {
  return config.user_set && config.user_set(variable);
}

bool has_rdma() {
  std::error_code none;
  return !std::filesystem::is_empty("/sys/class/infiniband", none) && !none;
}

std::string transports(const UcxConfig& config) {
  if (!config.tls.empty()) return config.tls;
  return config.shared_memory ? "all" : "^sm";
}

// UCX's settings, of which ours change those that the user has not set.
class Settings {
 public:
  Settings(const UcxConfig& config, const UcxQuiet& quiet) : config_(config), quiet_(quiet) {
    require(ucp_config_read(nullptr, nullptr, &settings_), "ucx: reading the settings", quiet_);
  }
  ~Settings() { ucp_config_release(settings_); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  // False where the user has set it.
  bool set(const std::string& name, const std::string& value) {
    if (is_set(config_, "UCX_" + name)) return false;
    require(ucp_config_modify(settings_, name.c_str(), value.c_str()),
            fmt::format("ucx: setting {} to '{}'", name, value), quiet_);
    return true;
  }

  // A setting of UCX's TCP transport. Up to UCX 1.16 it goes without the transport's name here.
  bool set_tcp(const std::string& name, const std::string& value) {
    unsigned major = 0, minor = 0, release = 0;
    ucp_get_version(&major, &minor, &release);
    const bool named = major > 1 || minor > 16;
    return !is_set(config_, "UCX_TCP_" + name) && set((named ? "TCP_" : "") + name, value);
  }

  const ucp_config_t* get() const { return settings_; }

 private:
  const UcxConfig& config_;
  const UcxQuiet& quiet_;
  ucp_config_t* settings_ = nullptr;
};

std::string congestion_control() {
  std::string name;
  std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> name;
  return name;
}

// When a connection breaks while a zero-copy send over TCP is under way, UCX 1.13 ends that send
// twice and dies of an assertion (uct_iface.h, comp->count > 0): one rank's death would be that of
// its neighbours. So bytes are copied, in pieces of a measured size (docs/transports.md), and the
// buffers for them are made one at a time, not eight. Not where there are RDMA devices: up to UCX
// 1.16 a setting goes to all transports that know it, and theirs register every lot they make.
void copy_in_pieces(Settings& settings, bool large_fit) {
  settings.set("ZCOPY_THRESH", "inf");
  const bool large = large_fit && !stalls_large_pieces(congestion_control());
  settings.set_tcp("TX_SEG_SIZE", large ? "130kb" : "33kb");
  settings.set_tcp("RX_BUFS_GROW", "1");
  settings.set_tcp("TX_BUFS_GROW", "1");
}

void apply(const UcxConfig& config, Settings& settings) {
  settings.set("TLS", transports(config));
  if (!config.devices.empty()) {
    settings.set("NET_DEVICES", joined(config.devices, ","));
  }
  settings.set("RNDV_THRESH", has_rdma() ? "auto" : "inf");
  // UCX fetches 16 events at once. When what it does for one closes the endpoint of another, which
  // the death of a peer can bring about, it dies of an assertion at that one (tcp_iface.c,
  // conn_state != CLOSED).
  settings.set_tcp("MAX_POLL", "1");
  // A blocking connect() to a host that is cut off would take minutes.
  settings.set_tcp("CONN_NB", "y");
  // UCX does not check whether a piece fits what its receiver has for it. So that is the same on
  // all hosts, while what they send need not be (Options::ucx_receive_size).
  const bool large_fit = settings.set_tcp("RX_SEG_SIZE", "132kb");
  if (!has_rdma()) copy_in_pieces(settings, large_fit);
  settings.set("MAX_EAGER_RAILS", std::to_string(config.rails));
  settings.set("MAX_RNDV_RAILS", std::to_string(config.rails));
  // Silent peers are for the communicator's heartbeat; this one costs a system call per sleep.
  settings.set("KEEPALIVE_INTERVAL", "inf");
  for (const auto& [name, value] : config.settings) settings.set(name, value);
}

ucp_context_h open_context(const UcxConfig& config, const UcxQuiet& quiet) {
  Settings settings(config, quiet);
  apply(config, settings);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&params, settings.get(), &context);
  require(status,
          fmt::format("ucx: opening transports '{}' on devices '{}'", transports(config),
                      joined(config.devices, ",")),
          quiet);
  return context;
}

ucp_worker_h open_worker(ucp_context_h context, const UcxConfig& config, const UcxQuiet& quiet) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  const ucs_status_t status = ucp_worker_create(context, &params, &worker);
  // It was there when the context was opened.
  if (status == UCS_ERR_NO_DEVICE) {
    throw Error(
        ECH_ERR_SYSTEM,
        fmt::format("ucx: a network interface that was to be used has gone down, or has "
                    "gone{}{}; `ip link` shows what there is",
                    config.devices.empty() ? "" : ": one of ", joined(config.devices, ", ")));
  }
  require(status, "ucx: creating a worker", quiet);
  return worker;
}

// UCX listens on every NIC, and tries for ever while no port is left. All ranks of this host look
// first, so each has to find enough for all; some more are for connections.
constexpr int kMostNics = 4;    // that are used when none is named
constexpr int kMostPorts = 64;  // looking takes some us for each
constexpr int kPortsForConnections = 4;

int ports_of(const UcxConfig& config) {
  const int nics = config.devices.empty() ? kMostNics : static_cast<int>(config.devices.size());
  return std::min(nics * config.openers, kMostPorts) + kPortsForConnections;
}

}  // namespace

UcxWorker::UcxWorker(const UcxConfig& config)
    : one_rail_(config.rails == 1 && !is_set(config, "UCX_MAX_EAGER_RAILS")) {
  const UcxQuiet quiet;
  require_descriptors(ucx_descriptors(config.peers), "ucx");
  require_thread("ucx");  // it ends the process when it gets none
  require_ports(ports_of(config), "ucx");
  if (!is_set(config, "UCX_HANDLE_ERRORS") && !is_set(config, "UCX_ERROR_SIGNALS")) {
    release_signals();
  }
  if (config.shared_memory) remove_ucx_leftovers();
  context_.reset(open_context(config, quiet));
  worker_.reset(open_worker(context_.get(), config, quiet));
  require(ucp_worker_get_efd(worker_.get(), &fd_), "ucx: asking for the descriptor", quiet);
}

UcxWorker::~UcxWorker() {
  const UcxQuiet quiet;
  end_full_connections(fd_);
  worker_.reset();
  context_.reset();
}

bool UcxWorker::reaches_gpus() const {
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  return has_rdma() && ucp_context_query(context_.get(), &attributes) == UCS_OK &&
         (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

std::string UcxWorker::address() const {
  const UcxQuiet quiet;
  ucp_address_t* bytes = nullptr;
  std::size_t length = 0;
  require(ucp_worker_get_address(worker_.get(), &bytes, &length), "ucx: asking for the address",
          quiet);
  std::string address = pack_ucx_address({reinterpret_cast<const char*>(bytes), length});
  ucp_worker_release_address(worker_.get(), bytes);
  return address;
}

}  // namespace echelon
