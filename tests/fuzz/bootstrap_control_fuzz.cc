// SPDX-License-Identifier: Apache-2.0
// Messages of ranks that have proved who they are but say anything: of any type, in any order, cut
// anywhere. An odd first byte makes us rank 1 of 3, an even one rank 0. Then come messages: who
// says it, its type, whether it is the last part, its length, its bytes. After them the others
// close. Every call ends with a result or an Error of one line.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/bootstrap/tcp_control.h"

namespace {

using namespace echelon;

constexpr int kSize = 3;
constexpr std::chrono::milliseconds kTime{200};

// The other end of one of our channels.
struct Other {
  Fd fd;
  FrameEncoder encoder;
};

const Key kToUs = derived_secret("to us"), kFromUs = derived_secret("from us");

Channels make_channels(int rank, std::vector<Other>& others) {
  Channels channels;
  for (int peer = 0; peer < kSize; ++peer) {
    if (peer == rank || (rank != 0 && peer != 0)) continue;
    std::array<int, 2> ends;
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
      std::abort();
    channels.push_back(std::make_unique<Channel>(Fd(ends[0]), Peer{peer, "host", 1},
                                                 Channel::Keys{kFromUs, kToUs}));
    others.push_back({Fd(ends[1]), FrameEncoder(kToUs)});
  }
  return channels;
}

void say(std::vector<Other>& others, std::string_view input) {
  while (input.size() > 4) {
    Other& other = others[static_cast<unsigned char>(input[0]) % others.size()];
    const auto type = static_cast<FrameType>(input[1]);
    const bool last = input[2] != 0;
    const auto length = static_cast<unsigned char>(input[3]);
    const std::string_view payload = input.substr(4, length);
    input.remove_prefix(4 + payload.size());
    std::string frame;
    other.encoder.append(type, payload, last, frame);
    (void)!::send(other.fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  for (const Other& other : others) ::shutdown(other.fd.get(), SHUT_WR);
}

void attempt(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    if (e.code() >= ECH_OK || std::string_view(e.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Identity identity;
  identity.rank = data[0] % 2;
  identity.size = kSize;
  identity.host = "host";
  std::vector<Other> others;
  TcpControl control(identity, make_channels(identity.rank, others));
  say(others, {reinterpret_cast<const char*>(data) + 1, size - 1});
  const auto deadline = std::chrono::steady_clock::now() + kTime;
  attempt([&] { control.start(deadline); });
  attempt([&] {
    if (control.allgather("mine", deadline).size() != kSize) std::abort();
  });
  attempt([&] { control.allgather("more", deadline); });
  attempt([&] { control.check(); });
  return 0;
}
