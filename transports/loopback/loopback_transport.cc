// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/loopback_transport.h"

#include <fmt/format.h>

#include <atomic>
#include <cassert>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transports/loopback/mailbox.h"

namespace echelon {
namespace {

// Thread safety: as transport.h says.
// Invariant: what is in wants_ or sent_ is not done; a rank in gone_ has nothing in either.
class LoopbackTransport : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<Mailbox> inbox, std::vector<std::shared_ptr<Mailbox>> peers,
                    int self)
      : inbox_(std::move(inbox)), peers_(std::move(peers)), self_(self), gone_(peers_.size()) {}
  ~LoopbackTransport() override;

  void send(int peer, Tag tag, std::span<const std::byte> data, Completion& completion) override;
  void receive(int peer, Tag tag, std::span<std::byte> data, Completion& completion) override;
  bool progress() override;
  void abort() override;
  Counters counters() const override { return counters_; }

  int fd() const override { return inbox_->fd(); }
  bool arm() override { return stopped_ || inbox_->arm(); }
  void disarm() override { inbox_->disarm(); }
  void sleep(std::chrono::nanoseconds limit) override { sleep_on(fd(), limit); }

 private:
  struct Sent {
    int to;
    Completion* completion;
  };

  void confirm(const Mailbox::News& news);
  void stop();
  void end_with(int peer, ech_status status);

  const std::shared_ptr<Mailbox> inbox_;
  const std::vector<std::shared_ptr<Mailbox>> peers_;  // by rank; nullptr: went before we came
  const int self_;

  std::vector<Want> wants_;
  std::unordered_map<std::uint64_t, Sent> sent_;  // by receipt
  std::vector<bool> gone_;
  std::uint64_t next_receipt_ = 0;
  Mailbox::News news_;  // kept for its memory
  Counters counters_;
  bool stopped_ = false;
  std::atomic<bool> aborting_ = false;
};

LoopbackTransport::~LoopbackTransport() {
  stop();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i] && static_cast<int>(i) != self_) peers_[i]->mark_gone(self_);
  }
}

void LoopbackTransport::send(int peer, Tag tag, std::span<const std::byte> data,
                             Completion& completion) {
  assert(peer != self_ && tag >> 48 == 0);
  completion = {};
  if (stopped_) {
    completion = {true, ECH_ERR_ABORTED, peer};
    return;
  }
  const std::uint64_t receipt = next_receipt_++;
  if (gone_[peer] || !peers_[peer] || !peers_[peer]->put({self_, tag, data, receipt})) {
    completion = {true, ECH_ERR_PEER, peer};
    return;
  }
  sent_[receipt] = {peer, &completion};
  ++counters_.messages;
  counters_.bytes += data.size();
}

void LoopbackTransport::receive(int peer, Tag tag, std::span<std::byte> data,
                                Completion& completion) {
  assert(peer != self_ && tag >> 48 == 0);
  completion = {};
  if (stopped_ || gone_[peer] || !peers_[peer]) {
    completion = {true, stopped_ ? ECH_ERR_ABORTED : ECH_ERR_PEER, peer};
    return;
  }
  wants_.push_back({peer, tag, data, &completion});
  inbox_->wake();  // its message may be there already
}

bool LoopbackTransport::progress() {
  if (stopped_) return false;
  if (aborting_.load(std::memory_order_acquire)) {
    stop();
    return true;
  }
  if (!inbox_->collect(wants_, news_)) return false;
  confirm(news_);
  for (const int peer : news_.gone) {
    gone_[peer] = true;
    end_with(peer, ECH_ERR_PEER);
  }
  news_.receipts.clear();
  news_.gone.clear();
  news_.delivered.clear();
  return true;
}

void LoopbackTransport::confirm(const Mailbox::News& news) {
  for (const std::uint64_t receipt : news.receipts) {
    const auto sent = sent_.extract(receipt);
    if (!sent) continue;
    *sent.mapped().completion = {true, ECH_OK, sent.mapped().to};
  }
  for (const auto& delivery : news.delivered) peers_[delivery.from]->confirm(delivery.receipt);
}

void LoopbackTransport::abort() {
  aborting_.store(true, std::memory_order_release);
  inbox_->wake();
}

void LoopbackTransport::stop() {
  if (std::exchange(stopped_, true)) return;
  inbox_->close();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i]) peers_[i]->take_back(self_);
    end_with(static_cast<int>(i), ECH_ERR_ABORTED);
  }
}

void LoopbackTransport::end_with(int peer, ech_status status) {
  std::erase_if(wants_, [&](const Want& want) {
    if (want.from == peer) *want.completion = {true, status, peer};
    return want.from == peer;
  });
  std::erase_if(sent_, [&](const auto& entry) {
    if (entry.second.to == peer) *entry.second.completion = {true, status, peer};
    return entry.second.to == peer;
  });
}

class LoopbackMedium : public Medium {
 public:
  LoopbackMedium() : inbox_(std::make_shared<Mailbox>()), address_(publish(inbox_)) {}

  std::string address() const override { return address_; }

  std::unique_ptr<Transport> connect(int self, std::span<const std::string> addresses) override {
    if (!inbox_) throw invalid("loopback: this medium is connected already");
    if (self < 0 || static_cast<std::size_t>(self) >= addresses.size()) {
      throw invalid(fmt::format("loopback: rank {} of {} addresses", self, addresses.size()));
    }
    std::vector<std::shared_ptr<Mailbox>> peers;
    for (const std::string& address : addresses) peers.push_back(find_mailbox(address));
    return std::make_unique<LoopbackTransport>(std::move(inbox_), std::move(peers), self);
  }

 private:
  std::shared_ptr<Mailbox> inbox_;
  const std::string address_;
};

}  // namespace

std::unique_ptr<Medium> open_loopback() { return std::make_unique<LoopbackMedium>(); }

}  // namespace echelon
