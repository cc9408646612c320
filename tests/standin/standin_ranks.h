// SPDX-License-Identifier: Apache-2.0
// Ranks of NCCL in tests, each a process, by the library's own loader. Failures throw.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>

#include "tests/support/gpu.h"
#include "tests/support/ranks.h"
#include "transports/nccl/library.h"

namespace echelon::test {

inline void* at(CudaPointer pointer) { return reinterpret_cast<void*>(pointer); }

inline const NcclLibrary& nccl() {
  const NcclLibrary* library = nccl_library("");
  if (library == nullptr) throw std::runtime_error(nccl_absence(""));
  return *library;
}

inline void check(NcclResult result) {
  if (result != kNcclSuccess) throw nccl_error(nccl(), result, "nccl", nullptr);
}

// An id that rank 0 makes, for itself and for ranks that are forked later.
class SharedId {
 public:
  SharedId() {
    void* page =
        mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw system_error("mmap");
    content_ = new (page) Content;
  }
  ~SharedId() { munmap(content_, sizeof(Content)); }
  SharedId(const SharedId&) = delete;
  SharedId& operator=(const SharedId&) = delete;

  NcclUniqueId get(int rank) const {
    if (rank == 0) {
      check(nccl().get_unique_id(&content_->id));
      content_->made = true;
    }
    while (!content_->made) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return content_->id;
  }

 private:
  struct Content {
    std::atomic<bool> made = false;
    NcclUniqueId id{};
  };
  Content* content_;
};

inline NcclComm join(const NcclUniqueId& id, int rank, int size) {
  NcclComm comm = nullptr;
  check(nccl().comm_init_rank_config(&comm, size, id, rank, nullptr));
  return comm;
}

// One rank, on device 0 of its own.
struct Rank {
  int rank, size;
  NcclUniqueId id;
  Gpu gpu{};
  NcclComm comm = nullptr;
  CudaStream stream = gpu.stream();

  void connect() { comm = join(id, rank, size); }
  void finish() const {
    gpu.wait(stream);
    check(nccl().comm_destroy(comm));
  }
};

inline void in_ranks(int size, const std::function<void(Rank&)>& body) {
  const SharedId id;
  run_processes(size, [&](int rank) {
    Rank one{.rank = rank, .size = size, .id = id.get(rank)};
    body(one);
  });
}

inline void in_connected_ranks(int size, const std::function<void(Rank&)>& body) {
  in_ranks(size, [&](Rank& r) {
    r.connect();
    body(r);
    r.finish();
  });
}

inline NcclResult result_of(NcclComm comm) {
  NcclResult result = kNcclInternalError;
  check(nccl().comm_get_async_error(comm, &result));
  return result;
}

inline void wait_until_done(NcclComm comm) {
  while (result_of(comm) == kNcclInProgress)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  check(result_of(comm));
}

}  // namespace echelon::test
