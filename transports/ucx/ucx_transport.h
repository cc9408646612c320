// SPDX-License-Identifier: Apache-2.0
// Tagged messages over one UCX worker.
//
// Thread safety: as transport.h says: one thread at a time, except abort().
// Invariants:
//  1. `pending_` is a ring of exactly the operations whose completion is not done.
//  2. A peer that failed has no endpoint, and outside progress() no pending operation.
//  3. Once stopped_, the worker is progressed only if UCX holds no memory of the caller.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transports/transport.h"
#include "transports/ucx/ucx_sockets.h"
#include "transports/ucx/ucx_worker.h"

namespace echelon {

class UcxTransport : public Transport {
 public:
  static constexpr int kRankBits = 16;

  UcxTransport(std::unique_ptr<UcxWorker> worker, std::function<bool(int)> local, int self,
               std::span<const std::string> addresses);
  ~UcxTransport() override;

  void send(int peer, Tag tag, std::span<const std::byte> data, Completion& completion) override;
  void receive(int peer, Tag tag, std::span<std::byte> data, Completion& completion) override;
  bool progress() override;
  void abort() override;
  bool all_left() override;
  Counters counters() const override { return counters_; }
  std::string reason(int peer) const override { return peers_[peer].reason; }

  int fd() const override { return worker_->fd(); }
  bool arm() override;
  void disarm() override {}
  void sleep(std::chrono::nanoseconds limit) override;

 private:
  struct Peer;

  // A send or receive. Not in UCX's own request, because UCX may report the end of one before
  // it has told us where that request is.
  struct Operation {
    Completion* completion = nullptr;  // nullptr: ended, for the caller at least
    Peer* peer = nullptr;
    std::size_t length = 0;
    void* request = nullptr;
    Operation* previous = nullptr;
    Operation* next = nullptr;
  };

  struct Peer {
    UcxTransport* owner = nullptr;
    int rank = -1;
    std::string address;
    ucp_ep_h endpoint = nullptr;
    ech_status failed = ECH_OK;  // how every later operation ends
    std::string reason;          // more on that, or ""
    bool local = false;          // reached through shared memory, which cannot tell of deaths
    bool broken = false;         // UCX said so; fail() has not dealt with it yet
    bool used = false;           // to send
  };

  static void on_sent(void* request, ucs_status_t status, void* operation);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                          void* operation);
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  bool reach(Peer& peer);
  void expect_connection();
  static bool fail(Peer& peer, ech_status status, const std::string& reason);
  void collect(Peer& from, Tag tag, std::span<std::byte> data, Completion& completion);

  Operation& begin(Peer& peer, std::size_t length, Completion& completion);
  void started(Operation& operation, void* request, const Completion& completion);
  void finish(Operation& operation, ech_status status);
  void recycle(Operation& operation);
  static void complete(Completion& completion, const Peer& peer, ech_status status);

  template <typename Function>
  void for_pending(const Peer* peer, Function function);
  bool any_pending(const Peer* peer);
  void end_pending(const Peer* peer);
  void fail_broken_peers();
  void stop();
  void close(Peer& peer, unsigned flags);
  void finish_closing();

  const std::function<bool(int)> local_;
  const int self_;

  std::vector<Peer> peers_;
  std::deque<Operation> operations_;  // all there are, in use or not
  Operation* idle_ = nullptr;         // linked by `next`
  Operation pending_;
  std::vector<void*> closing_;  // UCX's requests
  Counters counters_;
  std::size_t to_send_ = 0;  // at most, since all_left() looked
  std::size_t room_ = 0;     // of every connection, then
  bool any_new_ = true;      // connections, since connections_ looked
  bool any_broken_ = false;
  bool stopped_ = false;
  bool held_ = false;  // UCX may still hold memory of an operation that we ended
  std::atomic<bool> aborting_ = false;
  const std::unique_ptr<UcxWorker> worker_;  // goes before the above: it calls back when it ends
  WatchedConnections connections_;
};

}  // namespace echelon
