// SPDX-License-Identifier: Apache-2.0
// Layout: 8 bytes magic and version; u32 length and text of the address; u32 port; u32 length and
// secret; 16 bytes checksum over all before; zeros.
#include "lib/bootstrap/unique_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "lib/base/bytes.h"
#include "lib/base/error.h"

namespace echelon {
namespace {

// The last byte is the version of the layout.
constexpr std::string_view kMagic("ECHID\0\0\1", 8);
constexpr std::size_t kChecksumBytes = 16;

std::string checksum(std::string_view body) { return keyed_hash(Key{}, {body}, kChecksumBytes); }

Error mangled(std::string_view why) {
  return invalid(
      fmt::format("unique id: {}; pass on all {} bytes of what ech_get_unique_id gave, unchanged",
                  why, ECH_UNIQUE_ID_BYTES));
}

struct Waiting {
  std::mutex mutex;
  std::map<Secret, Listener> listeners;  // guarded by mutex
};

// Never destroyed: threads may still use it while the process ends.
Waiting& waiting() {
  static Waiting* const instance = new Waiting;
  return *instance;
}

}  // namespace

ech_unique_id encode(const UniqueId& id) {
  ByteWriter writer;
  writer.text(id.root.host()).u32(id.root.port());
  writer.text({reinterpret_cast<const char*>(id.secret.data()), id.secret.size()});
  std::string bytes = std::string(kMagic) + writer.take();
  bytes += checksum(bytes);
  ech_unique_id result{};
  std::memcpy(result.bytes, bytes.data(), std::min(bytes.size(), sizeof result.bytes));
  return result;
}

UniqueId decode(const ech_unique_id& bytes) {
  const std::string_view all(bytes.bytes, sizeof bytes.bytes);
  if (all.find_first_not_of('\0') == all.npos) throw mangled("all bytes are zero");
  if (all.substr(0, kMagic.size()) != kMagic) throw mangled("it does not begin like one");
  ByteReader reader(all.substr(kMagic.size()), "unique id");
  const std::string host = reader.text();
  const std::uint32_t port = reader.u32();
  const std::string secret = reader.text();
  const std::size_t body = kMagic.size() + 4 + host.size() + 4 + 4 + secret.size();
  UniqueId id;
  if (secret.size() != id.secret.size() || body + kChecksumBytes > all.size() ||
      checksum(all.substr(0, body)) != all.substr(body, kChecksumBytes) ||
      all.find_first_not_of('\0', body + kChecksumBytes) != all.npos)
    throw mangled("its checksum does not match");
  const auto address = parse_address(host);
  if (!address || port == 0 || port > 65535) throw mangled("it holds no address");
  id.root = *address;
  id.root.set_port(static_cast<std::uint16_t>(port));
  std::copy(secret.begin(), secret.end(), id.secret.begin());
  return id;
}

UniqueId listen_for_ranks(const std::string& interface) {
  Listener listener = listen_on_interface(interface);
  const UniqueId id{listener.address, random_secret()};
  std::lock_guard lock(waiting().mutex);
  waiting().listeners.emplace(id.secret, std::move(listener));
  return id;
}

Listener take_listener(const UniqueId& id) {
  std::lock_guard lock(waiting().mutex);
  const auto found = waiting().listeners.find(id.secret);
  if (found == waiting().listeners.end())
    throw invalid(
        fmt::format("rank 0 must be the process that made the unique id (for {}) and use it once",
                    id.root.text()));
  Listener listener = std::move(found->second);
  waiting().listeners.erase(found);
  return listener;
}

}  // namespace echelon
