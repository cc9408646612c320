// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/standby.h"

#include <utility>

#include "lib/base/bytes.h"
#include "lib/base/error.h"
#include "lib/bootstrap/doorman.h"

namespace echelon {
namespace {

// Communicators of one job may have the same secret. The addresses tell them apart, so that a
// port which another of them uses now is not taken for a rank of this one.
Key family_key(const Key& job, const std::vector<Address>& addresses) {
  ByteWriter writer;
  for (const Address& address : addresses) writer.text(address.text());
  return subkey(job, {"echelon standby", writer.take()});
}

std::string text_of(int seat) { return ByteWriter().u32(static_cast<std::uint32_t>(seat)).take(); }

}  // namespace

Standby::Standby(int self, Listener listener, std::vector<Address> addresses, const Key& job)
    : gone(addresses.size()),
      self_(self),
      listener_(std::move(listener)),
      addresses_(std::move(addresses)),
      key_(family_key(job, addresses_)) {}

// Others who look for this rank learn at once that it is not coming.
Standby::~Standby() {
  doorman_.reset();
  listener_.stop();
}

void Standby::answer() noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (!in_use_ && !doorman_) doorman_ = std::make_unique<Doorman>(*this);
  } catch (const std::exception&) {
    // Without a thread this rank is silent, and the others wait for it a little less.
  }
}

Standby::Use::Use(Standby& standby) : standby_(standby) {
  std::lock_guard lock(standby.mutex_);
  if (standby.in_use_)
    throw invalid("another thread is shrinking a communicator of the same family");
  standby.in_use_ = true;
  standby.doorman_.reset();
}

Standby::Use::~Use() {
  std::lock_guard lock(standby_.mutex_);
  standby_.in_use_ = false;
}

Key Standby::door_key(int seat) const { return subkey(key_, {"door", text_of(seat)}); }

Key Standby::notice_key(int seat) const { return subkey(key_, {"notice", text_of(seat)}); }

Key Standby::control_key() const { return subkey(key_, {"control"}); }

}  // namespace echelon
