// SPDX-License-Identifier: Apache-2.0
#include "lib/create.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "lib/base/time.h"
#include "lib/device_media.h"
#include "lib/fabric/formats.h"
#include "lib/fabric/loaders.h"
#include "lib/fabric/nic_state.h"
#include "lib/fabric/place.h"
#include "lib/introduction.h"
#include "lib/probe.h"
#include "lib/shared_files.h"
#include "lib/shm_options.h"
#include "lib/timeline_file.h"
#include "transports/ucx/ucx.h"

namespace echelon {
namespace {

// Polls before giving way when every rank has a core of its own, some 100 us.
constexpr int kPatienceOfOwners = 4000;
constexpr int kPatienceWithGpus = 24;  // where nothing was measured

constexpr std::chrono::seconds kFarewell{5};

std::string room_in_shm() {
  struct statvfs room {};
  if (statvfs("/dev/shm", &room) != 0) return fmt::format("/dev/shm: {}", std::strerror(errno));
  const auto kib = [&](fsblkcnt_t blocks) { return blocks * room.f_frsize >> 10; };
  return fmt::format("/dev/shm has {} of {} KiB free", kib(room.f_bavail), kib(room.f_blocks));
}

class Creation {
 public:
  Creation(Membership ranks, const Options& options, const Log& log, Deadline deadline)
      : control_(std::move(ranks.control)), options_(options), log_(log), deadline_(deadline) {
    const double stall = std::min(options.stall, options.heartbeat / 2);
    control_->set_patience({from_seconds(stall), from_seconds(options.heartbeat - stall)});
    parts_.options = options;
    parts_.standby = std::move(ranks.standby);
    parts_.seats = std::move(ranks.seats);
  }

  std::unique_ptr<Communicator> run() {
    try {
      return make();
    } catch (const Error& e) {
      if (control_ == nullptr) throw;
      if (e.code() == ECH_ERR_INVALID) say_goodbye();
      if (e.code() == ECH_ERR_PEER) await_failure(*control_);
      if (names_no_rank(e)) fail_as(own_name(), e, *control_);
      throw;
    }
  }

 private:
  std::string own_name() const {
    const auto rank = static_cast<std::size_t>(control_->rank());
    const std::vector<std::string>& names = parts_.rank_names;
    return rank < names.size() ? names[rank] : fmt::format("rank {}", rank);
  }

  std::unique_ptr<Communicator> make() {
    if (!options_.algorithm.empty()) parse_recipe(options_.algorithm);
    discover();
    introduce();
    exchange_hosts();
    share_files(*control_, parts_.options, deadline_);
    apply_fabric_file();
    parts_.options.timeline = agree_on_timeline(*control_, options_, log_, deadline_);
    add_racks();
    lay_out();
    parts_.gpu.use = use_of_gpus(ranks_, parts_.layout, parts_.rank_names);
    check_plan();
    apply_tuning();
    connect();
    if (options_.probe && control_->size() > 1) measure();
    parts_.log = log_;
    parts_.control = std::move(control_);
    auto made = std::make_unique<Communicator>(std::move(parts_));
    made->begin_timeline(deadline_);
    return made;
  }

  // What one rank finds wrong with the settings, all do. With a goodbye every one of them reports
  // that, and not that another rank has left.
  void say_goodbye() noexcept {
    try {
      control_->close(std::min(deadline_, Clock::now() + kFarewell));
    } catch (const std::exception&) {
      // The first error is the one to report.
    }
  }

  // Here, where all ranks know the same and nothing has been connected.
  void check_plan() const {
    if (options_.algorithm.empty() || options_.if_possible) return;
    const Recipe wanted = parse_recipe(options_.algorithm);
    const GpuUse& use = parts_.gpu.use;
    const Layout of_gpus = layout_of_gpus(parts_.layout, parts_.fabric, parts_.places, use);
    const bool for_gpus =
        use.absence.empty() && can_do(make_shape(of_gpus, use.native), wanted, ECH_ALLREDUCE);
    if (!for_gpus) Plans(make_shape(parts_.layout, true), control_->rank(), wanted);
  }

  void discover() {
    host_ = discover_host();
    for (const std::string& warning : host_.warnings) log_(ECH_LOG_INFO, warning);
  }

  void introduce() {
    Listener listener;
    if (!parts_.standby && control_->size() > 1) listener = listen_for_survivors();
    Introduction mine{host_.id,
                      host_.name,
                      allowed_cpus(),
                      options_.slurm_address,
                      options_.slurm_pattern,
                      options_.machine.empty() ? this_machine() : options_.machine,
                      settings_to_agree_on(options_),
                      static_cast<std::uint32_t>(getpid()),
                      offer_gpu(options_),
                      {}};
    if (listener.fd) mine.standby = listener.address;
    for (const std::string& bytes : control_->allgather(to_wire(mine), deadline_))
      ranks_.push_back(introduction_from_wire(bytes));
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Introduction& i = ranks_[r];
      parts_.rank_names.push_back(fmt::format("rank {} on {} (pid {})", r, i.host_name, i.pid));
      if (i.settings != ranks_[0].settings)
        throw invalid(fmt::format("{} has {}, but rank 0 has {}", parts_.rank_names[r],
                                  printable(i.settings), printable(ranks_[0].settings)));
    }
    if (listener.fd) stand_by(std::move(listener));
  }

  // Where ranks of other hosts have found this one already.
  Listener listen_for_survivors() const {
    const std::string& named = options_.interface_name;
    return listen_on_interface(named.empty() ? control_->address() : named);
  }

  // So that the ranks can find each other after a failure.
  void stand_by(Listener listener) {
    std::vector<Address> addresses;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!ranks_[r].standby)
        throw invalid(parts_.rank_names[r] + " does not listen for the survivors of a failure");
      addresses.push_back(*ranks_[r].standby);
      parts_.seats.push_back(static_cast<int>(r));
    }
    parts_.standby = std::make_shared<Standby>(control_->rank(), std::move(listener),
                                               std::move(addresses), control_->key("standby"));
    parts_.standby->interface = options_.interface_name;
    parts_.standby->log = log_;
  }

  // Of names that look like slips of known ones; others may be of programs that use this library.
  void warn_of_slips() const {
    static std::atomic_flag warned;  // the environment is the process's
    if (warned.test_and_set()) return;
    for (const UnknownVariable& variable : unknown_variables(environ))
      if (!variable.nearest.empty())
        log_(ECH_LOG_WARN, fmt::format("{} is set, but nothing reads it: is {} meant?",
                                       printable(variable.name), variable.nearest));
  }

  // Only the first rank of a host describes it.
  void exchange_hosts() {
    const int self = control_->rank();
    const auto first =
        std::ranges::find(ranks_, ranks_[self].host_id, &Introduction::host_id) - ranks_.begin();
    if (first == self) warn_of_slips();
    const auto described =
        control_->allgather(first == self ? to_wire(host_) : std::string(), deadline_);
    std::vector<Host> hosts(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!described[r].empty()) hosts[r] = host_from_wire(described[r]);
      hosts[r].id = ranks_[r].host_id;
    }
    Merged merged = merge(hosts);
    parts_.fabric = std::move(merged.fabric);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankPlace place;
      place.host = merged.host_of_rank[r];
      place.cpus = ranks_[r].cpus;
      place.machine = ranks_[r].machine;
      parts_.places.push_back(place);
    }
  }

  void apply_fabric_file() {
    const Options& options = parts_.options;
    if (options.fabric_text.empty()) return;
    try {
      apply(parse_fabric_file(options.fabric_text, options.fabric_file), parts_.fabric);
    } catch (const Error& e) {
      throw invalid(fmt::format("{}: {}", kFabricFile, e.what()));
    }
  }

  // When the layout is known, and before anything is connected.
  void apply_tuning() {
    std::vector<int> hosts;
    for (const RankPlace& place : parts_.places) hosts.push_back(place.host);
    Tuning tuning = tuning_for(parts_.options, machine_key(parts_.fabric, hosts),
                               {log_, control_->rank() == 0});
    try {
      require_possible(tuning, make_shape(parts_.layout, true));
    } catch (const Error& e) {
      throw invalid(fmt::format("{}: {}: {}", kTuningFile, parts_.options.tuning_file, e.what()));
    }
    parts_.tuned = std::move(tuning.plans);
    tuned_memory_ = tuning.shared_memory;
  }

  // The racks that Slurm knows; those of the fabric file win.
  void add_racks() {
    const std::string& pattern = ranks_[0].slurm_pattern;  // one for all, so that all agree
    if (pattern.empty()) return;
    std::vector<std::string> addresses(parts_.fabric.hosts.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      addresses[parts_.places[r].host] = ranks_[r].slurm_address;
    add_slurm_racks(parts_.fabric, addresses, pattern);
  }

  void lay_out() {
    place_gpus(ranks_, parts_.fabric, parts_.places);
    parts_.layout = make_layout(parts_.fabric, parts_.places);
    if (const std::string wrong = validate(parts_.layout); !wrong.empty())
      throw Error(ECH_ERR_INTERNAL, "layout: " + wrong);
    for (const std::string& warning : parts_.layout.warnings) log_(ECH_LOG_INFO, warning);
  }

  void measure() {
    add_measured(parts_.fabric, probe_links(parts_.layout, parts_.engine, *control_, deadline_));
    parts_.layout = make_layout(parts_.fabric, parts_.places);
  }

  // Messages are needed between hosts, and on one host for a plan that the user asked for or that
  // was measured to be quicker.
  bool needs_messages() const {
    if (control_->size() == 1) return false;
    return parts_.layout.host_count() > 1 || !options_.algorithm.empty() ||
           echelon::needs_messages(parts_.tuned);
  }

  void connect() {
    const int self = control_->rank();
    const int host = parts_.layout.host_of_rank[self];
    const std::vector<int> local = parts_.layout.ranks_of_host(host);
    std::unique_ptr<Medium> network = needs_messages() ? open_network() : nullptr;
    std::unique_ptr<GroupMedium> shared = local.size() > 1 ? open_shared() : nullptr;
    std::optional<DeviceMedia> gpu = open_gpu();
    MediaAddresses mine;
    if (network) mine.network = network->address();
    if (shared) mine.shared = shared->address();
    if (gpu) gpu->tell(mine);
    std::vector<MediaAddresses> all;
    for (const std::string& bytes : control_->allgather(to_wire(mine), deadline_))
      all.push_back(media_addresses_from_wire(bytes));
    std::vector<std::string> network_addresses;
    for (const MediaAddresses& theirs : all) network_addresses.push_back(theirs.network);
    if (network) parts_.engine.transport = network->connect(self, network_addresses);
    if (shared) connect_shared(*shared, local, all);
    if (gpu) connect_gpu(*gpu, all);
    if (parts_.layout.host_count() > 1) {
      parts_.engine.host_of_rank = parts_.layout.host_of_rank;
      parts_.nics = nics_in_use();
    }
    parts_.engine.rank = self;
    parts_.engine.spin = from_seconds(options_.spin);
    if (!crowded(local)) parts_.engine.patience = kPatienceOfOwners;
    control_->allgather("", deadline_);  // nobody leaves before all have connected
  }

  std::unique_ptr<GroupMedium> open_shared() const {
    const auto self = static_cast<std::size_t>(control_->rank());
    const Host& host = parts_.fabric.hosts[parts_.places[self].host];
    return make_shm_group(shm_options(options_.single_copy, tuned_memory_, host,
                                      host_share(self, parts_.places, parts_.fabric)));
  }

  // Nothing where a rank has no GPU.
  std::optional<DeviceMedia> open_gpu() const {
    const GpuUse& use = parts_.gpu.use;
    if (!use.absence.empty()) return std::nullopt;
    const int self = control_->rank();
    const std::vector<Group> all = gpu_groups(parts_.layout, parts_.fabric, parts_.places, use);
    const bool messages = needs_messages() || (control_->size() > 1 && !use.native);
    const auto open = [this] { return open_network(); };
    return std::optional<DeviceMedia>(std::in_place, groups_of(self, all, use), self, options_,
                                      messages ? DeviceMedia::OpenNetwork(open) : nullptr);
  }

  void connect_gpu(DeviceMedia& gpu, const std::vector<MediaAddresses>& all) {
    hear_of_gpus(all, parts_.rank_names, parts_.gpu.use);
    if (!parts_.gpu.use.absence.empty()) return;
    parts_.gpu.device = gpu.connect(all, log_);
    parts_.gpu.device->engine.spin = from_seconds(options_.spin);
    parts_.gpu.device->engine.patience = kPatienceWithGpus;
  }

  // Whether the ranks of this host are more than the CPUs that they may run on.
  bool crowded(const std::vector<int>& local) const {
    CpuSet cpus;
    for (int rank : local) cpus.add(parts_.places[rank].cpus);
    return cpus.count() < static_cast<int>(local.size());
  }

  void connect_shared(GroupMedium& shared, const std::vector<int>& local,
                      const std::vector<MediaAddresses>& all) {
    std::vector<std::string> members;
    for (int rank : local) members.push_back(all[rank].shared);
    const int index = static_cast<int>(std::ranges::find(local, control_->rank()) - local.begin());
    parts_.engine.group = shared.connect(index, members);
    parts_.engine.group_ranks = Group(local);
    parts_.engine.board = parts_.engine.group->board(index);
  }

  // UCX's shared memory lies in /dev/shm, which containers like to keep small.
  std::unique_ptr<Medium> open_network() const {
    UcxConfig config = network_config();
    try {
      return open_ucx(config);
    } catch (const Error& e) {
      if (e.code() != ECH_ERR_NO_MEMORY || !options_.ucx_tls.empty()) throw;
      config.shared_memory = false;
      std::unique_ptr<Medium> medium = open_ucx(config);
      log_(ECH_LOG_WARN,
           fmt::format("messages between ranks of this host take the network: {} ({}; mount -o "
                       "remount,size=50% /dev/shm, or docker --shm-size)",
                       e.what(), room_in_shm()));
      return medium;
    }
  }

  UcxConfig network_config() const {
    const int self = control_->rank();
    const Host& host = parts_.fabric.hosts[parts_.places[self].host];
    UcxConfig config;
    config.tls = options_.ucx_tls;
    config.peers = control_->size() - 1;
    const int here = parts_.layout.host_of_rank[self];
    config.openers = static_cast<int>(parts_.layout.ranks_of_host(here).size());
    config.devices = options_.nics.empty()
                         ? ucx_devices(host, nics_of_rank(parts_.fabric, parts_.places, self))
                         : named_devices(host, options_.nics, "ECHELON_NICS");
    config.rails = std::max<int>(1, static_cast<int>(config.devices.size()));
    config.local = [hosts = parts_.layout.host_of_rank, self](int peer) {
      return hosts[peer] == hosts[self];
    };
    config.user_set = [](std::string_view variable) {
      return std::getenv(std::string(variable).c_str()) != nullptr;
    };
    return config;
  }

  // For messages, as far as it is known which UCX uses, and for the control connection.
  std::vector<std::string> nics_in_use() const {
    const UcxConfig config = network_config();
    std::vector<std::string> nics;
    if (!config.user_set("UCX_NET_DEVICES")) nics = config.devices;
    const std::string address = control_->address();
    for (const Nic& nic : host_.nics)
      if (std::ranges::count(nic.addresses, address) > 0) nics.push_back(nic.name);
    std::erase_if(nics, [](const std::string& nic) { return nic_state(nic) != NicState::kThere; });
    return nics;
  }

  std::unique_ptr<Control> control_;
  const Options& options_;
  const Log& log_;
  const Deadline deadline_;
  Host host_;
  std::vector<Introduction> ranks_;
  CommunicatorParts parts_;
  TunedSharedMemory tuned_memory_;
};

}  // namespace

std::unique_ptr<Communicator> create_communicator(Membership ranks, const Options& options,
                                                  const Log& log, Deadline deadline) {
  return Creation(std::move(ranks), options, log, deadline).run();
}

}  // namespace echelon
