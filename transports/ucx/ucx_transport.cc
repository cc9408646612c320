// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_transport.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "lib/base/descriptors.h"
#include "transports/ucx/ucx_address.h"
#include "transports/ucx/ucx_quiet.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kTagBits = 64 - UcxTransport::kRankBits;
constexpr Tag kTagMask = (Tag{1} << kTagBits) - 1;
constexpr milliseconds kReleaseLimit{20};  // for UCX to let go of what is under way
constexpr milliseconds kCloseLimit{1000};  // for what was sent to leave
// And once nobody wants it any more: what went to a dead rank of this host by UCX's shared memory
// never leaves, and those endpoints cannot be closed by force.
constexpr milliseconds kCloseLimitWhenStopped{100};
constexpr int kOperations = 64;  // to begin with

// What a connection takes at most, and room for those that others make to this rank meanwhile.
constexpr int kPerConnection = 16;

// What a message may take of the room of a connection beside its bytes: Linux counts all memory of
// a packet. A large message is also answered by its receiver.
constexpr std::size_t kPerMessage = 1536;
constexpr std::size_t kFirstRoom = 16 << 10;

Tag full_tag(int sender, Tag tag) {
  assert((tag & ~kTagMask) == 0);
  return (static_cast<Tag>(sender) << kTagBits) | tag;
}

ech_status translate(ucs_status_t status, ech_status peer_failed) {
  if (status == UCS_OK) return ECH_OK;
  if (status == UCS_ERR_MESSAGE_TRUNCATED) return ECH_ERR_INTERNAL;
  if (status == UCS_ERR_NO_MEMORY) return ECH_ERR_NO_MEMORY;
  return peer_failed == ECH_OK ? ECH_ERR_PEER : peer_failed;
}

}  // namespace

UcxTransport::UcxTransport(std::unique_ptr<UcxWorker> worker, std::function<bool(int)> local,
                           int self, std::span<const std::string> addresses)
    : local_(std::move(local)),
      self_(self),
      peers_(addresses.size()),
      worker_(std::move(worker)),
      connections_(worker_->fd()) {
  pending_.next = pending_.previous = &pending_;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    peers_[i].owner = this;
    peers_[i].rank = static_cast<int>(i);
    peers_[i].address = unpack_ucx_address(addresses[i], peers_[i].rank);
  }
  for (int i = 0; i < kOperations; ++i) recycle(operations_.emplace_back());
}

UcxTransport::~UcxTransport() {
  const UcxQuiet quiet;
  if (any_pending(nullptr)) stop();
  end_full_connections(fd());
  for (Peer& peer : peers_) close(peer, 0);
  finish_closing();
}

void UcxTransport::send(int peer, Tag tag, std::span<const std::byte> data,
                        Completion& completion) {
  assert(peer != self_);
  completion = {};
  Peer& to = peers_[peer];
  if (!reach(to)) return complete(completion, to, to.failed);
  Operation& operation = begin(to, data.size(), completion);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = &operation;
  ++counters_.messages;
  counters_.bytes += data.size();
  to_send_ += data.size() + kPerMessage;
  if (!std::exchange(to.used, true)) expect_connection();
  void* request =
      ucp_tag_send_nbx(to.endpoint, data.data(), data.size(), full_tag(self_, tag), &param);
  if (UCS_PTR_IS_PTR(request)) return started(operation, request, completion);
  finish(operation, translate(UCS_PTR_STATUS(request), to.failed));
  recycle(operation);
}

void UcxTransport::receive(int peer, Tag tag, std::span<std::byte> data, Completion& completion) {
  assert(peer != self_);
  completion = {};
  Peer& from = peers_[peer];
  // With an endpoint to it, we learn of the death of a peer that we never send to.
  const bool reachable = reach(from);
  if (stopped_) return complete(completion, from, ECH_ERR_ABORTED);
  collect(from, tag, data, completion);
  // What a peer sent before it went can still be had, but nothing more will come.
  if (!reachable && !completion.done) end_pending(&from);
}

void UcxTransport::collect(Peer& from, Tag tag, std::span<std::byte> data, Completion& completion) {
  Operation& operation = begin(from, data.size(), completion);
  to_send_ += std::min(data.size(), kPerMessage);
  ucp_request_param_t param{};
  // Without immediate completion, since only the callback is told the length (UCX 1.13).
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = on_received;
  param.user_data = &operation;
  void* request = ucp_tag_recv_nbx(worker_->get(), data.data(), data.size(),
                                   full_tag(from.rank, tag), ~Tag{0}, &param);
  if (UCS_PTR_IS_PTR(request)) return started(operation, request, completion);
  finish(operation, translate(UCS_PTR_STATUS(request), from.failed));
  recycle(operation);
}

bool UcxTransport::progress() {
  if (stopped_) return false;
  if (aborting_.load(std::memory_order_acquire)) {
    stop();
    return true;
  }
  const bool moved = ucp_worker_progress(worker_->get()) != 0;
  if (!any_broken_) [[likely]]
    return moved;
  fail_broken_peers();
  return true;
}

void UcxTransport::abort() {
  aborting_.store(true, std::memory_order_release);
  worker_->wake();
}

// Looks only where what was sent may be more than the connections had room for. What has carried a
// message remains the peer's connection; before, and where a message may go by several, UCX may
// make one anew.
bool UcxTransport::all_left() {
  if (to_send_ <= room_ || stopped_) return true;
  const bool known = !any_new_ && worker_->one_rail();
  std::size_t room = known ? connections_.room_if_quiet() : 0;
  if (room == 0) {
    const std::optional<std::size_t> found = connections_.look();
    if (!found) return false;
    room = *found;
    any_new_ = false;
  }
  // A connection made meanwhile has little room at first.
  room_ = std::min(room, std::max(kFirstRoom, 2 * room_));
  to_send_ = 0;
  return true;
}

bool UcxTransport::arm() {
  if (stopped_) return true;
  if (aborting_.load(std::memory_order_acquire) || any_broken_) return false;
  return ucp_worker_arm(worker_->get()) == UCS_OK;
}

void UcxTransport::sleep(std::chrono::nanoseconds limit) { sleep_on(fd(), limit); }

void UcxTransport::on_sent(void* request, ucs_status_t status, void* user) {
  auto& operation = *static_cast<Operation*>(user);
  UcxTransport& transport = *operation.peer->owner;
  if (operation.completion != nullptr) {
    transport.finish(operation, translate(status, operation.peer->failed));
  }
  transport.recycle(operation);
  ucp_request_free(request);
}

void UcxTransport::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                               void* user) {
  const auto& operation = *static_cast<const Operation*>(user);
  const bool wrong_length = status == UCS_OK && info->length != operation.length;
  on_sent(request, wrong_length ? UCS_ERR_MESSAGE_TRUNCATED : status, user);
}

// Only notes it: an endpoint must not be closed from inside UCX.
void UcxTransport::on_error(void* peer, ucp_ep_h, ucs_status_t) {
  auto& broken = *static_cast<Peer*>(peer);
  broken.broken = true;
  broken.owner->any_broken_ = true;
}

// Makes the endpoint when there is none yet. False: peer.failed says why there is none.
bool UcxTransport::reach(Peer& peer) {
  if (peer.endpoint != nullptr) [[likely]]
    return true;
  if (peer.failed != ECH_OK) return false;
  const UcxQuiet quiet;
  try {
    require_descriptors(kPerConnection, "a ucx connection");
  } catch (const Error& e) {
    return fail(peer, e.code(), e.what());
  }
  peer.local = local_ && local_(peer.rank);
  expect_connection();
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = peer.local ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, &peer};
  const ucs_status_t status = ucp_ep_create(worker_->get(), &params, &peer.endpoint);
  if (status == UCS_OK) return true;
  peer.endpoint = nullptr;
  return fail(peer, ECH_ERR_PEER, quiet.text());
}

void UcxTransport::expect_connection() {
  any_new_ = true;
  room_ = 0;
}

bool UcxTransport::fail(Peer& peer, ech_status status, const std::string& reason) {
  peer.failed = status;
  peer.reason = reason;
  return false;
}

UcxTransport::Operation& UcxTransport::begin(Peer& peer, std::size_t length,
                                             Completion& completion) {
  if (idle_ == nullptr) recycle(operations_.emplace_back());
  Operation& operation = *std::exchange(idle_, idle_->next);
  operation = {&completion, &peer, length, nullptr, pending_.previous, &pending_};
  operation.previous->next = &operation;
  pending_.previous = &operation;
  return operation;
}

// UCX may have called back already, and then the request has gone.
void UcxTransport::started(Operation& operation, void* request, const Completion& completion) {
  if (operation.completion == &completion) operation.request = request;
}

void UcxTransport::finish(Operation& operation, ech_status status) {
  operation.previous->next = operation.next;
  operation.next->previous = operation.previous;
  complete(*std::exchange(operation.completion, nullptr), *operation.peer, status);
}

void UcxTransport::recycle(Operation& operation) {
  operation.next = std::exchange(idle_, &operation);
}

void UcxTransport::complete(Completion& completion, const Peer& peer, ech_status status) {
  completion = {true, status, peer.rank};
}

// Calls it for every pending operation with `peer`, or with anyone; it may end that operation.
template <typename Function>
void UcxTransport::for_pending(const Peer* peer, Function function) {
  Operation* next = pending_.next;
  while (next != &pending_) {
    Operation& operation = *std::exchange(next, next->next);
    if (peer == nullptr || operation.peer == peer) function(operation);
  }
}

bool UcxTransport::any_pending(const Peer* peer) {
  bool any = false;
  for_pending(peer, [&](Operation&) { any = true; });
  return any;
}

// Ends what is pending with a peer that has failed. UCX gives back receives that have not begun
// when asked to, and the rest some progress after their endpoint was closed.
void UcxTransport::end_pending(const Peer* peer) {
  for_pending(peer, [&](Operation& o) { ucp_request_cancel(worker_->get(), o.request); });
  const auto deadline = Clock::now() + kReleaseLimit;
  while (any_pending(peer) && Clock::now() < deadline) ucp_worker_progress(worker_->get());
  for_pending(peer, [&](Operation& o) {
    finish(o, o.peer->failed);
    held_ = true;
  });
}

void UcxTransport::fail_broken_peers() {
  const UcxQuiet quiet;
  any_broken_ = false;
  for (Peer& peer : peers_) {
    if (!std::exchange(peer.broken, false)) continue;
    peer.failed = ECH_ERR_PEER;
    close(peer, UCP_EP_CLOSE_FLAG_FORCE);
    end_pending(&peer);
  }
}

void UcxTransport::stop() {
  const UcxQuiet quiet;
  stopped_ = true;
  end_full_connections(fd());
  for (Peer& peer : peers_) {
    peer.failed = ECH_ERR_ABORTED;
    close(peer, UCP_EP_CLOSE_FLAG_FORCE);
  }
  end_pending(nullptr);
}

void UcxTransport::close(Peer& peer, unsigned flags) {
  if (peer.endpoint == nullptr) return;
  if (peer.local && flags == UCP_EP_CLOSE_FLAG_FORCE) return;  // not possible: it stays as it is
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = flags;
  void* request = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

// Waits, within bounds, for what was sent to leave this process.
void UcxTransport::finish_closing() {
  const auto deadline = Clock::now() + (stopped_ ? kCloseLimitWhenStopped : kCloseLimit);
  const auto open = [](void* request) {
    return ucp_request_check_status(request) == UCS_INPROGRESS;
  };
  while (!held_ && std::any_of(closing_.begin(), closing_.end(), open) && Clock::now() < deadline) {
    if (ucp_worker_progress(worker_->get()) != 0) continue;
    if (ucp_worker_arm(worker_->get()) == UCS_OK) sleep_on(fd(), milliseconds{1});
  }
  for (void* request : closing_) ucp_request_free(request);
}

}  // namespace echelon
