// SPDX-License-Identifier: Apache-2.0
// Communicators of parts of another's ranks.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/bytes.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/rendezvous.h"
#include "lib/communicator.h"
#include "lib/create.h"
#include "lib/timeline_file.h"

namespace echelon {
namespace {

// A new unique id, or why there is none: then every rank must hear of it.
std::string meeting_point(const Options& options) {
  try {
    const ech_unique_id id = encode(listen_for_ranks(options.interface_name));
    return {id.bytes, sizeof id.bytes};
  } catch (const Error& e) {
    return std::string("cannot listen: ") + e.what();
  }
}

// The socket that listens for an id that nobody will use.
void close_meeting_point(const std::string& shown) {
  ech_unique_id id{};
  if (shown.size() != sizeof id.bytes) return;
  shown.copy(id.bytes, sizeof id.bytes);
  take_listener(decode(id));
}

}  // namespace

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  const Deadline until = deadline();
  meet(Signature::kSplit, until);
  ++splits_;
  const std::string mine = ByteWriter().u32(color).u32(key).take();
  std::vector<std::pair<int, int>> members;  // (key, rank) of my color
  const std::vector<std::string> all = control_->allgather(mine, until);
  for (int r = 0; r < size(); ++r) {
    ByteReader reader(all[r], "a rank's color");
    const int their_color = static_cast<int>(reader.u32());
    if (their_color == color) members.emplace_back(static_cast<int>(reader.u32()), r);
  }
  std::ranges::sort(members);
  const bool first = color >= 0 && members.front().second == rank_;
  const std::string shown =
      show_meeting_point(first, members.empty() ? 0 : members.front().second, until);
  if (color < 0) return nullptr;
  ech_unique_id id{};
  if (shown.size() != sizeof id.bytes)
    throw Error(ECH_ERR_SYSTEM, rank_names_[members.front().second] + " " + shown);
  shown.copy(id.bytes, sizeof id.bytes);
  const auto me = std::ranges::find(members, rank_, &std::pair<int, int>::second);
  const Identity identity = Identity::with(decode(id), static_cast<int>(me - members.begin()),
                                           static_cast<int>(members.size()));
  Options options = options_;
  options.if_possible = true;
  if (timeline_)
    options.timeline = with_suffix(timeline_->path(), fmt::format("-split{}-{}", splits_, color));
  std::optional<DeviceScope> same_gpu;
  if (gpu_) same_gpu.emplace(gpu_->device());
  return create_part(identity, options, until);
}

// Where the ranks of a part meet, as its first rank shows it.
std::string Communicator::show_meeting_point(bool first, int leader, Deadline until) {
  const std::string mine = first ? meeting_point(options_) : "";
  try {
    return control_->allgather(mine, until)[leader];
  } catch (const Error&) {
    close_meeting_point(mine);
    throw;
  }
}

// When this communicator fails, ranks leave the part that hear of it sooner than we do.
std::unique_ptr<Communicator> Communicator::create_part(const Identity& identity,
                                                        const Options& options, Deadline until) {
  try {
    return create_communicator({join_part(identity, until)}, options, log_, until);
  } catch (const Error& e) {
    if (may_be_a_consequence(e)) await_failure(*control_);
    throw;
  }
}

// When this communicator fails, some ranks do not come any more. Until the part's ranks are joined
// only this communicator can find out that one of them has stopped.
std::unique_ptr<Control> Communicator::join_part(const Identity& identity, Deadline until) {
  const auto check = [this, start = Clock::now()] {
    control_->check();
    watch_.waiting(Clock::now() - start);
  };
  try {
    return join(identity, {until, options_.interface_name, log_, {}, check});
  } catch (const Error& e) {
    if (e.code() == ECH_ERR_PEER) await_failure(*control_);
    control_->check();  // the better reason
    if (e.code() != ECH_ERR_INVALID || options_.interface_name.empty()) throw;
    // The name that the caller gave was right when this communicator was made.
    throw Error(ECH_ERR_SYSTEM, std::string("a network interface has gone: ") + e.what());
  }
}

}  // namespace echelon
