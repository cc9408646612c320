// SPDX-License-Identifier: Apache-2.0
// Control over a star of channels with rank 0 in the middle.
//
// Thread safety: as Control says; abort() may run beside any other call.
// Invariants:
//  1. The first failure wins: it ends every pending and later call on this rank with the same
//     error, and each rank passes it on (rank 0 to all, the others to rank 0), so that all ranks
//     name the same culprit.
//  2. After a failure fd() stays readable.
//  3. Only wait_for_event() blocks, and it holds no lock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "lib/base/fd.h"
#include "lib/bootstrap/control.h"
#include "lib/bootstrap/rendezvous.h"

namespace echelon {

class TcpControl final : public Control {
 public:
  TcpControl(const Identity& identity, Channels channels);
  ~TcpControl() override;

  // Collective: returns when every rank knows that all have come.
  void start(Deadline deadline);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::string> allgather(std::string_view mine, Deadline deadline) override;
  int fd() const override { return epoll_.get(); }
  void check() override;
  void abort() noexcept override;
  void close(Deadline deadline) override;

 private:
  // What has come from one rank. On ranks other than 0 only that of rank 0 is used.
  struct Inbox {
    std::deque<std::string> gathers;
    bool ready = false;
    bool goodbye = false;
  };
  // What a blocking call waits for: until no rank is missing.
  struct Wait {
    const char* what;
    std::function<std::vector<int>()> missing;
    bool after_goodbye = false;  // else a missing rank that said goodbye is a failure
  };
  static bool gave_nothing(const Inbox& inbox);

  bool is_root() const { return rank_ == 0; }
  Channel* channel_of(int rank);
  std::string describe(int rank) const;
  std::string describe(const std::vector<int>& ranks) const;
  std::vector<int> ranks_where(const std::function<bool(const Inbox&)>& lacks) const;
  std::vector<int> unread() const;

  void watch(const Channel& channel, int operation);
  void send_all(FrameType type, const std::string& payload);
  void flush(Channel& channel);
  void flush_for(std::chrono::milliseconds limit);

  void pump();
  void receive_from(Channel& channel);
  void handle(Channel& channel, Message message);
  void drop(Channel& channel);
  void lost(Channel& channel);
  void fail(const Error& error, const Channel* origin);

  void wait(const Wait& wait, Deadline deadline);
  bool settled(const Wait& wait, Deadline start, Deadline limit);
  void wait_for_event(Deadline deadline) const;
  Error timed_out(const Wait& wait, Deadline start) const;
  std::string take_gather(int rank);
  std::vector<std::string> gather_on_root(std::string_view mine, Deadline deadline);
  std::vector<std::string> gather_on_member(std::string_view mine, Deadline deadline);

  // Constant after start().
  const int rank_;
  const int size_;
  std::vector<Peer> roster_;
  Fd epoll_;
  Fd wake_;  // made readable by the first failure, and left so

  std::mutex mutex_;  // guards the rest
  Channels channels_;
  std::vector<Inbox> inboxes_;  // by rank
  std::optional<Error> failure_;
  bool closed_ = false;
};

}  // namespace echelon
