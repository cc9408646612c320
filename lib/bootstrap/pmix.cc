// SPDX-License-Identifier: Apache-2.0
// The only file that includes pmix.h.
#include "lib/bootstrap/pmix.h"

#include <fmt/format.h>
#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "lib/base/error.h"
#include "lib/bootstrap/text.h"

namespace echelon {
namespace {

// A key for each time, in step on all ranks because every use is collective: PMIx keeps values for
// the life of the job.
std::string next_key() {
  static std::atomic<int> uses = 0;
  return fmt::format("echelon.unique_id.{}", uses++);
}

struct FreeValue {
  void operator()(pmix_value_t* value) const { PMIX_VALUE_RELEASE(value); }
};
using Value = std::unique_ptr<pmix_value_t, FreeValue>;

void expect_success(pmix_status_t status, const char* what) {
  if (status == PMIX_SUCCESS) return;
  const ech_status code = status == PMIX_ERR_TIMEOUT ? ECH_ERR_TIMEOUT : ECH_ERR_SYSTEM;
  throw Error(code, fmt::format("{} failed: {}", what, PMIx_Error_string(status)));
}

// Null when the server does not know the key.
Value get(const pmix_proc_t& proc, const char* key, Deadline deadline) {
  int seconds = std::max(1, milliseconds_until(deadline) / 1000);
  pmix_info_t limit;
  PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
  pmix_value_t* value = nullptr;
  const pmix_status_t status = PMIx_Get(&proc, key, &limit, 1, &value);
  if (status == PMIX_ERR_NOT_FOUND) return nullptr;
  expect_success(status, "PMIx_Get");
  return Value(value);
}

int to_int(const Value& value, const char* key) {
  if (value && value->type == PMIX_UINT32) return static_cast<int>(value->data.uint32);
  if (value && value->type == PMIX_UINT16) return value->data.uint16;
  throw Error(ECH_ERR_SYSTEM, fmt::format("PMIx does not know {} of this job", key));
}

class PmixClient final : public Pmix {
 public:
  PmixClient() {
    const pmix_status_t status = PMIx_Init(&self_, nullptr, 0);
    if (status != PMIX_SUCCESS)
      throw Error(ECH_ERR_UNSUPPORTED,
                  fmt::format("PMIx has no server for this process ({}): start it with mpirun or "
                              "srun --mpi=pmix",
                              PMIx_Error_string(status)));
    PMIX_PROC_LOAD(&all_, self_.nspace, PMIX_RANK_WILDCARD);
  }
  ~PmixClient() override {
    if (!forked()) PMIx_Finalize(nullptr, 0);
  }

  // Such a process has neither PMIx's thread nor a place in the job.
  bool forked() const { return getpid() != process_; }

  Identity identity() const override {
    const Deadline soon = Deadline::clock::now() + std::chrono::seconds(10);
    Identity identity;
    identity.rank = static_cast<int>(self_.rank);
    identity.size = to_int(get(all_, PMIX_JOB_SIZE, soon), "the size");
    return identity;
  }

  std::string from_root(const std::string& mine, Deadline deadline) override {
    const std::string key = next_key();
    if (self_.rank == 0) put(key, mine);
    fence(deadline);
    pmix_proc_t root;
    PMIX_PROC_LOAD(&root, self_.nspace, 0);
    const Value value = get(root, key.c_str(), deadline);
    if (!value || value->type != PMIX_BYTE_OBJECT)
      throw Error(ECH_ERR_SYSTEM, "PMIx lost what rank 0 published");
    return {value->data.bo.bytes, value->data.bo.size};
  }

 private:
  void put(const std::string& key, const std::string& bytes) const {
    std::string copy = bytes;
    pmix_value_t value{};
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo = {copy.data(), copy.size()};
    expect_success(PMIx_Put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put");
    expect_success(PMIx_Commit(), "PMIx_Commit");
  }

  void fence(Deadline deadline) const {
    bool collect = true;
    int seconds = std::max(1, milliseconds_until(deadline) / 1000);
    pmix_info_t info[2];
    PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    expect_success(PMIx_Fence(&all_, 1, info, 2), "PMIx_Fence");
  }

  const pid_t process_ = getpid();
  pmix_proc_t self_;
  pmix_proc_t all_;
};

}  // namespace

Pmix& connect_pmix() {
  static PmixClient client;
  if (client.forked())
    throw Error(ECH_ERR_UNSUPPORTED, "PMIx knows the process that forked this one, not this one");
  return client;
}

}  // namespace echelon
