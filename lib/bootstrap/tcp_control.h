// SPDX-License-Identifier: Apache-2.0
// Control over a star of channels with rank 0 in the middle.
//
// Thread safety: as Control says.
// Invariants:
//  1. The first failure wins: it ends every pending and later call on this rank with the same
//     error, and each rank passes it on (rank 0 to all, the others to rank 0), so that all ranks
//     name the same culprit.
//  2. After a failure fd() stays readable.
//  3. Only the service thread reads the channels. It blocks without the lock, and without a time
//     limit when nobody waits: an idle communicator costs no processor time.
//  4. No exception leaves the service thread: it ends the communicator instead.
//  5. Who waits, waits for `changed_`, which the service thread signals after everything it read.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/base/fd.h"
#include "lib/bootstrap/control.h"
#include "lib/bootstrap/inquiry.h"
#include "lib/bootstrap/rendezvous.h"

namespace echelon {

class TcpControl final : public Control {
 public:
  TcpControl(const Identity& identity, Channels channels);
  ~TcpControl() override;

  // Collective: returns when every rank knows that all have come. `check`, if any, is called now
  // and then meanwhile, and what it throws ends the wait.
  void start(Deadline deadline, const std::function<void()>& check = nullptr);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Key key(std::string_view purpose) const override { return subkey(secret_, {purpose}); }
  std::string address() override;
  std::vector<std::string> allgather(std::string_view mine, Deadline deadline) override;
  void set_patience(const Patience& patience) override;
  void attend(Attendant* attendant, const std::vector<int>& mates) override;
  int fd() const override { return news_fd_.get(); }
  void check() override;
  std::string waiting(std::chrono::nanoseconds since) override;
  bool in_doubt() override;
  void fail(const Error& error) noexcept override;
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
    bool after_goodbye = false;             // else a missing rank that said goodbye is a failure
    std::function<void()> check = nullptr;  // what else may end it, by throwing
  };
  // A rank whose connection has ended. Its host's other ranks may know what it was doing.
  struct Loss {
    int rank;
    Time until;
  };
  static bool gave_nothing(const Inbox& inbox);

  // tcp_control.cc: calls. What needs the lock is called with it.
  bool is_root() const { return rank_ == 0; }
  Channel* channel_of(int rank);
  std::string describe(int rank) const;
  std::string describe(const std::vector<int>& ranks) const;
  std::vector<int> ranks_where(const std::function<bool(const Inbox&)>& lacks) const;
  std::vector<int> unread() const;
  void watch(const Channel& channel, int operation);
  void send(Channel& channel, FrameType type, Channel::Payload payload);
  void send_all(FrameType type, const std::string& payload);
  void flush(Channel& channel);
  void flush_for(std::chrono::milliseconds limit);
  void fail_all(const Error& error, const Channel* origin);
  void wait(const Wait& wait, Deadline deadline);
  bool settled(const Wait& wait, Deadline start, Deadline limit);
  Error timed_out(const Wait& wait, Deadline start) const;
  std::string take_gather(int rank);
  std::vector<std::string> gather_on_root(std::string_view mine, Deadline deadline);
  std::vector<std::string> gather_on_member(std::string_view mine, Deadline deadline);

  // control_service.cc: the service thread
  void serve() noexcept;
  void fail_by(const std::exception& exception) noexcept;
  void poke() noexcept;
  int milliseconds_to_next() const;
  void pump();
  void serve_channel(Channel& channel, std::uint32_t events);
  void receive_from(Channel& channel);
  void handle(Channel& channel, Message message);
  void drop(Channel& channel);
  void lost(Channel& channel);
  void mate_died(int rank);
  bool has_mates(int rank) const;
  std::string last_seen(int rank) const;
  Error death(int rank) const;

  // control_service.cc: why ranks wait
  void complain(Time now);
  void tick(Time now);
  void ask();
  void judge(const std::vector<Snapshot>& reports);
  void learn(std::string news);
  Error silence(const std::vector<int>& ranks);
  std::string own_report(std::uint64_t number) const;
  void take_report(int rank, const std::string& payload);

  // Constant after start().
  const int rank_;
  const int size_;
  const Secret secret_;
  const Error exhausted_{ECH_ERR_NO_MEMORY,
                         "out of memory in the thread that reads the control connections"};
  std::vector<Peer> roster_;
  Fd epoll_;
  Fd poke_;     // wakes the service thread
  Fd news_fd_;  // made readable by the first failure, and left so

  std::atomic<bool> failed_{false};  // failure_ is set
  std::atomic<int> urgent_{0};       // who wants the lock before the service thread has it again
  std::mutex mutex_;                 // guards the rest
  std::condition_variable changed_;
  Channels channels_;
  std::vector<Inbox> inboxes_;  // by rank
  std::optional<Error> failure_;
  bool closed_ = false;
  bool leaving_ = false;  // we have said goodbye: the others may go
  bool stopping_ = false;

  Patience patience_;
  Attendant* attendant_ = nullptr;
  std::vector<std::pair<int, Fd>> mates_;  // rank, process
  std::deque<Loss> losses_;
  Inquiry inquiry_;                    // rank 0's
  std::optional<Time> complained_at_;  // last
  std::optional<Time> unanswered_;     // our first complaint since rank 0 was heard of
  std::string news_;
  Time news_at_{};

  std::thread service_;  // last: it uses everything above
};

}  // namespace echelon
