// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/reunion.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/notice.h"
#include "lib/bootstrap/search.h"
#include "lib/bootstrap/solo_control.h"
#include "lib/bootstrap/tcp_control.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGrace{2};  // for the messages of those that are not silent

class Reunion {
 public:
  Reunion(Standby& standby, const ReunionOptions& options) : standby_(standby), options_(options) {}

  Reunited run() {
    found_ = search(standby_, options_);
    for (int seat = 0; seat < standby_.size(); ++seat)
      standby_.gone[seat] = !std::ranges::binary_search(found_.members, seat);
    if (found_.leads) leave_others();
    if (found_.members.size() == 1) return {std::make_unique<SoloControl>(), found_.members};
    if (found_.leads) announce();
    return connect();
  }

 private:
  void leave_others() const;
  void announce();
  void await_answers() const;
  bool has_answered(Channel& follower) const;
  Reunited connect();
  int rank_of(int seat) const;
  Deadline limit() const;

  Standby& standby_;
  const ReunionOptions& options_;
  const Deadline start_ = Clock::now();
  Found found_;
};

// They are told before anybody goes on without them.
void Reunion::leave_others() const {
  for (int seat : found_.left_out)
    standby_.log(ECH_LOG_WARN, fmt::format("shrink: going on after {} without {}, which did not "
                                           "come",
                                           seconds_since(start_), options_.describe(seat)));
  leave_notices(standby_, found_.left_out);
}

void Reunion::announce() {
  const auto news = std::make_shared<const std::string>(encode_members(found_.members));
  try {
    for (const auto& follower : found_.channels) follower->send(FrameType::kReady, news);
    await_answers();
  } catch (const Error& e) {
    tell_all(found_.channels, e);
    throw;
  }
}

// Until all know who goes on: then the new control connection tells of deaths.
void Reunion::await_answers() const {
  const Deadline deadline = limit();
  std::vector<Channel*> silent;
  for (const auto& follower : found_.channels) silent.push_back(follower.get());
  for (;;) {
    std::erase_if(silent, [this](Channel* follower) { return has_answered(*follower); });
    if (silent.empty()) return;
    if (Clock::now() >= deadline)
      throw Error(ECH_ERR_TIMEOUT,
                  fmt::format("{} did not answer while the survivors came together, for {}",
                              options_.describe(silent[0]->peer().rank), seconds_since(start_)));
    std::vector<pollfd> sockets;
    for (const Channel* follower : silent) {
      const short events = follower->unsent() ? POLLIN | POLLOUT : POLLIN;
      sockets.push_back({follower->fd(), events, 0});
    }
    ::poll(sockets.data(), sockets.size(), milliseconds_until(deadline));
  }
}

bool Reunion::has_answered(Channel& follower) const {
  follower.flush();
  const bool open = follower.receive();
  if (follower.next()) return true;
  if (open) return false;
  throw Error(ECH_ERR_PEER, fmt::format("{} was lost while the survivors came together",
                                        options_.describe(follower.peer().rank)));
}

// The connections that they have found each other by are the new control connections.
Reunited Reunion::connect() {
  Identity identity;
  identity.rank = rank_of(standby_.self());
  identity.size = static_cast<int>(found_.members.size());
  identity.secret = standby_.control_key();
  if (!found_.leads) {
    found_.channels[0]->send(FrameType::kReady, std::make_shared<const std::string>());
    found_.channels[0]->flush();
  }
  for (const auto& channel : found_.channels) channel->set_rank(rank_of(channel->peer().rank));
  auto control = std::make_unique<TcpControl>(identity, std::move(found_.channels));
  control->start(limit());
  return {std::move(control), std::move(found_.members)};
}

int Reunion::rank_of(int seat) const {
  const auto at = std::ranges::lower_bound(found_.members, seat);
  return static_cast<int>(at - found_.members.begin());
}

Deadline Reunion::limit() const {
  return std::min(options_.deadline, Clock::now() + options_.times.silent + kGrace);
}

}  // namespace

Reunited reunite(Standby& standby, const ReunionOptions& options) {
  const Standby::Use use(standby);
  if (standby.lost_to) throw left_out(standby, options);
  Reunited reunited = Reunion(standby, options).run();
  standby.reception().send_away();  // nobody hears them from now on
  return reunited;
}

std::string encode_members(const std::vector<int>& seats) {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(seats.size()));
  for (int seat : seats) writer.u32(static_cast<std::uint32_t>(seat));
  return writer.take();
}

std::vector<int> decode_members(std::string_view payload, int size) {
  ByteReader reader(payload, "list of survivors");
  const std::uint32_t count = reader.u32();
  const Error wrong = invalid("list of survivors: it names no group of ranks");
  if (count < 2 || count > static_cast<std::uint32_t>(size)) throw wrong;
  std::vector<int> seats;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t seat = reader.u32();
    const bool in_order = seats.empty() || seat > static_cast<std::uint32_t>(seats.back());
    if (!in_order || seat >= static_cast<std::uint32_t>(size)) throw wrong;
    seats.push_back(static_cast<int>(seat));
  }
  reader.expect_end();
  return seats;
}

}  // namespace echelon
