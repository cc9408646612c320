// SPDX-License-Identifier: Apache-2.0
// The connection to one authenticated rank: a non-blocking socket, messages out and in.
//
// Thread safety: one thread at a time. Invariants:
//  1. No call blocks.
//  2. Messages leave in the order of send(). send_instead() drops all of them but the frame that is
//     under way: after a failure nothing else matters.
//  3. After the other side has closed, messages that came before are still delivered by next().
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/fd.h"
#include "lib/bootstrap/frame.h"

namespace echelon {

// Who is at the other end, for messages to people.
struct Peer {
  int rank = 0;
  std::string host;
  std::uint32_t pid = 0;

  std::string text() const;  // "rank 3 (host b, pid 77)"
};

class Channel {
 public:
  struct Keys {
    Key send, receive;
  };
  using Payload = std::shared_ptr<const std::string>;

  Channel(Fd fd, Peer peer, const Keys& keys)
      : fd_(std::move(fd)), peer_(std::move(peer)), encoder_(keys.send), decoder_(keys.receive) {}
  ~Channel();

  int fd() const { return fd_.get(); }
  const Peer& peer() const { return peer_; }
  void set_rank(int rank) { peer_.rank = rank; }
  bool open() const { return static_cast<bool>(fd_); }

  void send(FrameType type, Payload payload);
  void send_instead(FrameType type, std::string payload);
  void flush();
  bool unsent() const { return !out_.empty() || !queue_.empty(); }

  // Takes what has arrived. False when the other side has closed or is gone.
  bool receive();
  std::optional<Message> next();  // throws ECH_ERR_AUTH naming the peer

  // Forgets what has come and throws away what comes; what is sent still leaves.
  void stop_receiving() { decoder_.reset(); }

  void close() { fd_ = Fd(); }

 private:
  struct Outgoing {
    FrameType type;
    Payload payload;
    std::size_t sent = 0;
  };
  void encode_frame();
  void drop_unsent();

  Fd fd_;
  Peer peer_;
  FrameEncoder encoder_;
  std::optional<FrameDecoder> decoder_;  // empty: nothing is received any more
  std::deque<Outgoing> queue_;
  std::string out_;  // encoded frames
  std::size_t out_sent_ = 0;
};

}  // namespace echelon
