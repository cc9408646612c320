// SPDX-License-Identifier: Apache-2.0
// Standbys of several seats on loopback, as the making of a communicator leaves them.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "lib/bootstrap/reunion.h"
#include "tests/unit/bootstrap/support.h"

namespace echelon::test {

inline std::string seat_name(int seat) { return fmt::format("rank {} on here (pid 1)", seat); }

// Waits so long for who is silent.
inline ReunionOptions waiting(milliseconds silent) {
  return {{silent, kLong}, in(2 * kLong), seat_name};
}

// For seats that are threads. Whose standby is destroyed is dead.
class Family {
 public:
  explicit Family(int size) : key_(random_secret()), standbys_(size) {
    std::vector<Listener> listeners;
    for (int seat = 0; seat < size; ++seat) {
      listeners.push_back(listen_on_interface("lo"));
      addresses_.push_back(listeners.back().address);
    }
    for (int seat = 0; seat < size; ++seat) {
      standbys_[seat] =
          std::make_unique<Standby>(seat, std::move(listeners[seat]), addresses_, key_);
      standbys_[seat]->interface = "lo";
    }
  }

  Standby& operator[](int seat) { return *standbys_[seat]; }
  void kill(int seat) { standbys_[seat].reset(); }
  const Address& address(int seat) const { return addresses_[seat]; }

 private:
  const Key key_;
  std::vector<Address> addresses_;
  std::vector<std::unique_ptr<Standby>> standbys_;
};

// That `reunited` has brought together exactly `seats`, and that they can talk.
inline void expect_together(Reunited reunited, const Standby& standby, std::vector<int> seats) {
  EXPECT_EQ(reunited.seats, seats);
  Control& control = *reunited.control;
  ASSERT_EQ(control.size(), static_cast<int>(seats.size()));
  EXPECT_EQ(seats.at(static_cast<std::size_t>(control.rank())), standby.self());
  const auto all = control.allgather(std::to_string(standby.self()), in(kLong));
  for (std::size_t r = 0; r < seats.size(); ++r) EXPECT_EQ(all[r], std::to_string(seats[r]));
  control.close(in(kLong));
}

}  // namespace echelon::test
