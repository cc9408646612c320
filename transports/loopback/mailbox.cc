// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/mailbox.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

namespace echelon {
namespace {

Fd open_event() {
  Fd event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event) throw system_error("loopback: eventfd");
  return event;
}

struct Registry {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<Mailbox>> mailboxes;
  std::uint64_t next = 1;
};

Registry& registry() {
  static Registry all;
  return all;
}

// Copies the offer into the want and ends the want.
void deliver(const Offer& offer, const Want& want) {
  const bool fits = offer.data.size() == want.data.size();
  if (fits && !offer.data.empty()) {
    std::memcpy(want.data.data(), offer.data.data(), offer.data.size());
  }
  *want.completion = {true, fits ? ECH_OK : ECH_ERR_INTERNAL, want.from};
}

}  // namespace

Mailbox::Mailbox() : event_(open_event()) {}

bool Mailbox::put(const Offer& offer) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  offers_.push_back(offer);
  notify();
  return true;
}

void Mailbox::take_back(int from) {
  std::lock_guard lock(mutex_);
  std::erase_if(offers_, [from](const Offer& o) { return o.from == from; });
}

void Mailbox::confirm(std::uint64_t receipt) {
  std::lock_guard lock(mutex_);
  receipts_.push_back(receipt);
  notify();
}

void Mailbox::mark_gone(int peer) {
  std::lock_guard lock(mutex_);
  gone_.push_back(peer);
  notify();
}

bool Mailbox::collect(std::vector<Want>& wants, News& news) {
  std::lock_guard lock(mutex_);
  news_ = false;
  news.receipts.swap(receipts_);
  news.gone.swap(gone_);
  // Copies under the lock: take_back() then means that nobody reads the data any more.
  std::erase_if(offers_, [&](const Offer& offer) {
    const auto want = std::find_if(wants.begin(), wants.end(), [&](const Want& w) {
      return w.from == offer.from && w.tag == offer.tag;
    });
    if (want == wants.end()) return false;
    deliver(offer, *want);
    news.delivered.push_back({offer.from, offer.receipt});
    wants.erase(want);
    return true;
  });
  return !(news.receipts.empty() && news.gone.empty() && news.delivered.empty());
}

void Mailbox::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  offers_.clear();
}

bool Mailbox::arm() {
  std::lock_guard lock(mutex_);
  armed_ = !news_;
  return armed_;
}

void Mailbox::disarm() {
  std::lock_guard lock(mutex_);
  armed_ = false;
  std::uint64_t count = 0;
  if (read(event_.get(), &count, sizeof count) < 0) return;  // nobody woke us
}

void Mailbox::wake() {
  std::lock_guard lock(mutex_);
  notify();
}

void Mailbox::notify() {
  news_ = true;
  const std::uint64_t one = 1;
  if (armed_ && write(event_.get(), &one, sizeof one) < 0) return;  // full: readable already
}

std::string publish(const std::shared_ptr<Mailbox>& mailbox) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.mailboxes, [](const auto& entry) { return entry.second.expired(); });
  all.mailboxes[all.next] = mailbox;
  return std::to_string(all.next++);
}

std::shared_ptr<Mailbox> find_mailbox(const std::string& address) {
  std::uint64_t name = 0;
  const char* end = address.data() + address.size();
  const auto parsed = std::from_chars(address.data(), end, name);
  if (parsed.ec != std::errc() || parsed.ptr != end) return nullptr;
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  const auto found = all.mailboxes.find(name);
  return found == all.mailboxes.end() ? nullptr : found->second.lock();
}

}  // namespace echelon
