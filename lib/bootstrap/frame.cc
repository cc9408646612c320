// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/frame.h"

#include <cassert>
#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/error.h"

namespace echelon {
namespace {

constexpr std::size_t kHeadBytes = 6;
constexpr std::size_t kFrameProofBytes = 16;
static_assert(kHeadBytes + kFrameProofBytes == kFrameOverhead);

std::string proof(const Key& key, std::uint64_t number, std::string_view head_and_payload) {
  return keyed_hash(key, {ByteWriter().u64(number).take(), head_and_payload}, kFrameProofBytes);
}

Error foreign(const char* why) { return {ECH_ERR_AUTH, why}; }

}  // namespace

void FrameEncoder::append(FrameType type, std::string_view payload, bool last, std::string& out) {
  assert(payload.size() <= kFramePayloadBytes);
  const std::size_t begin = out.size();
  ByteWriter head;
  head.u32(static_cast<std::uint32_t>(payload.size()));
  head.u8(static_cast<std::uint8_t>(type)).u8(last);
  out += head.take();
  out += payload;
  out += proof(key_, number_++, std::string_view(out).substr(begin));
}

void empty(std::string& bytes) {
  constexpr std::size_t kKeptBytes = 4096;
  if (bytes.capacity() > kKeptBytes)
    std::string().swap(bytes);
  else
    bytes.clear();
}

void FrameDecoder::feed(std::string_view bytes) {
  if (used_ == buffer_.size())
    empty(buffer_);
  else
    buffer_.erase(0, used_);
  used_ = 0;
  buffer_ += bytes;
}

std::optional<Message> FrameDecoder::next() {
  do {
    more_ = false;
    if (auto message = take_frame()) return message;
  } while (more_);
  return std::nullopt;
}

std::optional<Message> FrameDecoder::take_frame() {
  const std::string_view bytes = std::string_view(buffer_).substr(used_);
  if (bytes.size() < kHeadBytes) return std::nullopt;
  ByteReader head(bytes, "frame");
  const std::size_t length = head.u32();
  if (length > kFramePayloadBytes) throw foreign("a frame is longer than any rank sends");
  if (bytes.size() < length + kFrameOverhead) return std::nullopt;
  const std::string_view body = bytes.substr(0, kHeadBytes + length);
  if (!same_proof(bytes.substr(body.size(), kFrameProofBytes), proof(key_, number_, body)))
    throw foreign("a frame was changed, repeated or comes from elsewhere");
  ++number_;
  used_ += length + kFrameOverhead;
  more_ = true;
  const auto type = static_cast<FrameType>(head.u8());
  const bool last = head.u8() != 0;
  return collect(type, body.substr(kHeadBytes), last);
}

std::optional<Message> FrameDecoder::collect(FrameType type, std::string_view payload, bool last) {
  if (!partial_ || partial_->type != type) {
    if (last) return Message{type, std::string(payload)};
    if (partial_) throw foreign("two long messages are mixed");
    partial_ = Message{type, {}};
  }
  if (partial_->payload.size() + payload.size() > kMessageBytes)
    throw foreign("a message is longer than 1 GiB");
  partial_->payload += payload;
  if (!last) return std::nullopt;
  return std::exchange(partial_, std::nullopt);
}

}  // namespace echelon
