// SPDX-License-Identifier: Apache-2.0
// Rank 0's side: accepts connections, tells ranks from strangers, and waits until all have come.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "lib/base/error.h"
#include "lib/bootstrap/failure.h"
#include "lib/bootstrap/reception.h"
#include "lib/bootstrap/rendezvous.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

class Rendezvous {
 public:
  Rendezvous(const Identity& identity, const JoinOptions& options)
      : identity_(identity),
        options_(options),
        listener_(identity.id ? take_listener(*identity.id)
                              : listen_at(identity.host, identity.port, options.interface)),
        channels_(identity.size - 1) {}

  Channels run() {
    try {
      while (joined_ + 1 < identity_.size) step();
    } catch (const Error& e) {
      listener_.stop();
      tell_all(channels_, e);
      throw;
    }
    listener_.stop();
    return std::move(channels_);
  }

 private:
  void step();
  void judge(Guest& guest);
  void stranger(const Guest& guest);
  std::string objection(const Hello& hello) const;
  void admit(Guest& guest, const Hello& hello);
  void hear_rank(Channel& channel);
  Error too_late() const;

  const Identity& identity_;
  const JoinOptions& options_;
  const Deadline start_ = Clock::now();
  Listener listener_;
  Reception reception_{listener_};
  Channels channels_;  // of rank i + 1; null until it has come
  int joined_ = 0;
  int strangers_ = 0;
  std::string last_stranger_;
};

void Rendezvous::step() {
  std::vector<pollfd> sockets;
  std::vector<Channel*> ranks;
  for (const auto& channel : channels_) {
    if (!channel) continue;
    sockets.push_back({channel->fd(), POLLIN, 0});
    ranks.push_back(channel.get());
  }
  reception_.watch(sockets);
  Deadline wake = std::min(options_.deadline, reception_.when());
  if (options_.check) {
    options_.check();
    wake = std::min(wake, Clock::now() + kCheckPeriod);
  }
  ::poll(sockets.data(), sockets.size(), milliseconds_until(wake));
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (sockets[i].revents != 0) hear_rank(*ranks[i]);
  reception_.serve(&sockets[ranks.size()], [this](Guest& guest) { judge(guest); });
  if (joined_ + 1 < identity_.size && Clock::now() >= options_.deadline) throw too_late();
}

void Rendezvous::judge(Guest& guest) {
  Hello hello;
  try {
    hello = decode_hello(identity_.secret, guest.challenge, guest.hello);
  } catch (const Error&) {
    return stranger(guest);
  }
  const std::string reason = objection(hello);
  if (reason.empty()) return admit(guest, hello);
  const std::string text = fmt::format("rank {} at {} (host {}, pid {}) {}", hello.rank,
                                       guest.from.text(), hello.host, hello.pid, reason);
  reply(guest,
        encode_verdict(identity_.secret, guest.challenge, guest.hello, {ECH_ERR_INVALID, text}));
  throw invalid(text);
}

// Once in the log: whoever knocks without the secret must not be able to fill it.
void Rendezvous::stranger(const Guest& guest) {
  reply(guest, encode_refusal());
  last_stranger_ = guest.from.text();
  if (strangers_++ == 0)
    options_.log(ECH_LOG_WARN,
                 fmt::format("rank 0 refused {}: it does not know the job's secret; still waiting "
                             "for {} ranks (said once)",
                             last_stranger_, identity_.size - 1 - joined_));
}

std::string Rendezvous::objection(const Hello& hello) const {
  if (hello.version != options_.version)
    return fmt::format("runs {}, rank 0 runs {}", hello.version.text(), options_.version.text());
  const auto size = static_cast<std::uint32_t>(identity_.size);
  if (hello.size != size)
    return fmt::format("says that there are {} ranks, rank 0 was told {}", hello.size, size);
  if (hello.rank >= size) return fmt::format("is not one of the ranks 1-{}", size - 1);
  if (hello.rank == 0) return "says that it is rank 0, which is here already";
  if (const auto& other = channels_[hello.rank - 1])
    return fmt::format("came twice: first from host {}, pid {}", other->peer().host,
                       other->peer().pid);
  return "";
}

void Rendezvous::admit(Guest& guest, const Hello& hello) {
  channels_[hello.rank - 1] = welcome(identity_.secret, guest, hello);
  ++joined_;
}

// Ranks that have come have nothing to say yet, unless they give up.
void Rendezvous::hear_rank(Channel& channel) {
  const bool open = channel.receive();
  while (const auto message = channel.next())
    if (message->type == FrameType::kFailure) throw decode_failure(message->payload);
  if (!open) throw Error(ECH_ERR_PEER, channel.peer().text() + " left before all ranks had come");
}

Error Rendezvous::too_late() const {
  std::vector<int> missing;
  for (int rank = 1; rank < identity_.size; ++rank)
    if (!channels_[rank - 1]) missing.push_back(rank);
  std::string text = fmt::format("creation timed out after {}: {} of {} did not reach rank 0 at {}",
                                 seconds_since(start_), rank_list(missing), identity_.size,
                                 listener_.address.text());
  if (strangers_ > 0)
    text += fmt::format("; {} connections did not know the job's secret, the last from {}",
                        strangers_, last_stranger_);
  return {ECH_ERR_TIMEOUT, text};
}

}  // namespace

Channels await_ranks(const Identity& identity, const JoinOptions& options) {
  return Rendezvous(identity, options).run();
}

}  // namespace echelon
