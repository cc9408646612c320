// SPDX-License-Identifier: Apache-2.0
// UCX's context and worker with an owner, and the one place that knows UCX's settings.
// Thread safety: one thread at a time, except wake().
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "transports/ucx/ucx.h"

namespace echelon {

class UcxWorker {
 public:
  explicit UcxWorker(const UcxConfig& config);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h get() const { return worker_.get(); }
  int fd() const { return fd_; }
  std::string address() const;  // see ucx_address.h

  // Whether UCX has transports for CUDA memory, and a network that they are made for: over TCP it
  // would copy such a message in pieces, one after the other.
  bool reaches_gpus() const;

  // Whether all messages to a peer go by one connection.
  bool one_rail() const { return one_rail_; }

  // Makes fd() readable, or the next arm fail. Any thread.
  void wake() { ucp_worker_signal(worker_.get()); }

 private:
  struct Cleanup {
    void operator()(ucp_context_h context) const { ucp_cleanup(context); }
    void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
  };

  const bool one_rail_;
  std::unique_ptr<ucp_context, Cleanup> context_;
  std::unique_ptr<ucp_worker, Cleanup> worker_;
  int fd_ = -1;
};

}  // namespace echelon
