// SPDX-License-Identifier: Apache-2.0
// Where others leave what they want of a loopback transport.
//
// Thread safety: everything is. No member is called with another mailbox's lock held, so there
// is no order of locks to keep.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "transports/transport.h"

namespace echelon {

// A message on offer. The data stay the sender's until it is told `Receipt{receipt}`, or until
// it takes the offer back.
struct Offer {
  int from = -1;
  Tag tag = 0;
  std::span<const std::byte> data;
  std::uint64_t receipt = 0;
};

// A posted receive.
struct Want {
  int from = -1;
  Tag tag = 0;
  std::span<std::byte> data;
  Completion* completion = nullptr;
};

class Mailbox {
 public:
  Mailbox();

  // From others. put() is false, and nothing happens, when the owner has gone.
  bool put(const Offer& offer);
  void take_back(int from);             // all its offers; none of its data is read after this
  void confirm(std::uint64_t receipt);  // an offer of the owner's was received
  void mark_gone(int peer);             // it will neither send nor receive any more

  // From the owner. Moves out what has come in; false when there was nothing.
  struct News {
    std::vector<std::uint64_t> receipts;
    std::vector<int> gone;
    struct Delivery {
      int from;
      std::uint64_t receipt;
    };
    std::vector<Delivery> delivered;  // to be confirmed to their senders
  };
  bool collect(std::vector<Want>& wants, News& news);
  void close();

  int fd() const { return event_.get(); }
  bool arm();
  void disarm();
  void wake();

 private:
  void notify();  // with mutex_ held

  const Fd event_;
  std::mutex mutex_;
  std::vector<Offer> offers_;
  std::vector<std::uint64_t> receipts_;
  std::vector<int> gone_;
  bool news_ = false;
  bool armed_ = false;
  bool closed_ = false;
};

// Mailboxes by the name that stands in addresses.
std::string publish(const std::shared_ptr<Mailbox>& mailbox);
std::shared_ptr<Mailbox> find_mailbox(const std::string& address);  // nullptr: not, or no more

}  // namespace echelon
