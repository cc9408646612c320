// SPDX-License-Identifier: Apache-2.0
// UCX's context and worker with an owner, and the one place that knows UCX's settings.
// Thread safety: one thread at a time, except wake().
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "transports/ucx/ucx.h"

namespace echelon {

// Throws what a UCX call that failed deserves: "what: UCX's text".
void require_ucx(ucs_status_t status, const std::string& what);

class UcxWorker {
 public:
  explicit UcxWorker(const UcxConfig& config);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h get() const { return worker_; }
  int fd() const { return fd_; }
  std::string address() const;

  // Makes fd() readable, or the next arm fail. Any thread.
  void wake() { ucp_worker_signal(worker_); }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;
};

}  // namespace echelon
