// SPDX-License-Identifier: Apache-2.0
// Messages between two authenticated ranks as a stream of frames. Pure: bytes in, bytes out.
//
// A frame: u32 payload length, u8 type, u8 last, payload, proof. The proof is a hash over the
// frame's number in its direction, the head and the payload, keyed with the session's key, so bytes
// that were injected, changed, left out, repeated or reordered are detected. A message longer than
// a frame is cut; a message of one frame may overtake it between two frames.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/bootstrap/auth.h"

namespace echelon {

enum class FrameType : std::uint8_t {
  kReady = 1,      // rank 0 -> ranks: everyone is here; who is who
  kGather = 2,     // ranks -> rank 0: my bytes; rank 0 -> ranks: everyone's bytes
  kGoodbye = 3,    // I am about to close
  kFailure = 4,    // status and text: the communicator has ended
  kComplaint = 5,  // ranks -> rank 0: an operation makes no progress
  kAsk = 6,        // rank 0 -> ranks: what are you doing? With the inquiry's number
  kReport = 7,     // ranks -> rank 0: that number, and the answer
  kNews = 8,       // rank 0 -> ranks: whom the waiting ranks wait for
};

struct Message {
  FrameType type;
  std::string payload;
};

inline constexpr std::size_t kFramePayloadBytes = 64 << 10;
inline constexpr std::size_t kFrameOverhead = 6 + 16;
inline constexpr std::size_t kMessageBytes = std::size_t{1} << 30;

// Empties it, and gives back the memory that only a long message needed: rank 0 has a channel for
// every other rank, and sends to each what all have said.
void empty(std::string& bytes);

class FrameEncoder {
 public:
  explicit FrameEncoder(const Key& key) : key_(key) {}

  // Appends one frame to `out`. At most kFramePayloadBytes.
  void append(FrameType type, std::string_view payload, bool last, std::string& out);

 private:
  Key key_;
  std::uint64_t number_ = 0;
};

class FrameDecoder {
 public:
  explicit FrameDecoder(const Key& key) : key_(key) {}

  void feed(std::string_view bytes);

  // The next complete message. Throws ECH_ERR_AUTH for bytes that the other side did not send.
  std::optional<Message> next();

 private:
  std::optional<Message> take_frame();
  std::optional<Message> collect(FrameType type, std::string_view payload, bool last);

  Key key_;
  std::uint64_t number_ = 0;
  std::string buffer_;
  std::size_t used_ = 0;  // bytes of buffer_ already decoded
  bool more_ = false;     // a frame was decoded that completed no message
  std::optional<Message> partial_;
};

}  // namespace echelon
