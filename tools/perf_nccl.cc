// SPDX-License-Identifier: Apache-2.0
#include "tools/perf_nccl.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "lib/options.h"
#include "tools/perf/comm.h"
#include "transports/nccl/library.h"

namespace echelon::tools {
namespace {

using perf::Failure;

constexpr const char* kElsewhere = "--vs nccl: another rank cannot, and says why";

class Nccl final : public perf::Peer {
 public:
  Nccl(const NcclLibrary& nccl, CudaStream stream, int rank)
      : nccl_(nccl), stream_(stream), rank_(rank) {}

  // Without waiting for the others, which may have failed.
  ~Nccl() override {
    if (comm_ != nullptr) nccl_.comm_abort(comm_);
  }

  void join(const perf::Comm& ranks) {
    NcclUniqueId id{};
    if (rank_ == 0) check(nccl_.get_unique_id(&id), "ncclGetUniqueId");
    const std::string ids = ranks.gather({std::begin(id.bytes), std::end(id.bytes)});
    std::memcpy(id.bytes, ids.data(), sizeof id.bytes);
    check(nccl_.comm_init_rank_config(&comm_, ranks.size(), id, rank_, nullptr),
          "ncclCommInitRankConfig");
  }

  void allreduce(const void* send, void* recv, const perf::Case& what) override {
    check(nccl_.all_reduce(send, recv, what.count, nccl_type(what.dtype), nccl_op(what.op), comm_,
                           stream_),
          "ncclAllReduce");
  }

 private:
  void check(NcclResult result, const char* call) const {
    if (result == kNcclSuccess) return;
    throw Failure(fmt::format("--vs nccl: rank {}: {}", rank_,
                              nccl_error(nccl_, result, call, comm_).what()));
  }

  const NcclLibrary& nccl_;
  const CudaStream stream_;
  const int rank_;
  NcclComm comm_ = nullptr;
};

// "" or which ranks of a host have one GPU. What NCCL takes for hosts are ours.
std::string shared_gpu(const perf::Comm& ranks) {
  const std::string mine = ranks.device()->identity() + fmt::format("{:>8}", ranks.host());
  const std::string all = ranks.gather(mine);
  std::map<std::string, int> first;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto [at, is_new] =
        first.emplace(all.substr(static_cast<std::size_t>(rank) * mine.size(), mine.size()), rank);
    if (!is_new)
      return fmt::format("--vs nccl: ranks {} and {} share a GPU, which NCCL does not allow",
                         at->second, rank);
  }
  return "";
}

}  // namespace

std::unique_ptr<perf::Peer> join_nccl(const perf::Comm& comm, CudaStream stream) {
  const std::string path = read_options(std::getenv).nccl;
  const NcclLibrary* const nccl = nccl_library(path);
  comm.agree(nccl != nullptr ? "" : "--vs nccl: " + nccl_absence(path), kElsewhere);
  const std::string shared = shared_gpu(comm);
  if (!shared.empty() && !nccl_shares_gpus(*nccl)) throw Failure(shared);
  auto peer = std::make_unique<Nccl>(*nccl, stream, comm.rank());
  peer->join(comm);
  return peer;
}

}  // namespace echelon::tools
