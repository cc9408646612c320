// SPDX-License-Identifier: Apache-2.0
// What only moves bytes: Echelon sends them as they are, and what is not dense goes through a
// buffer, by MPI_Pack and MPI_Unpack, on the rank where it is not.
#include <vector>

#include "mpi/collectives.h"
#include "mpi/serve.h"

namespace echelon::dropin {
namespace {

constexpr const char* kNotPacked = "MPI_Pack gave another number of bytes than the type has";

class Packed {
 public:
  Packed(std::size_t bytes, MPI_Comm comm) : bytes_(bytes), comm_(comm) {}

  char* data() { return bytes_.data(); }

  // What the call is to return: MPI has called the error handler for what it finds itself.
  int fill(const void* from, const Block& block) {
    int at = 0;
    const int size = static_cast<int>(bytes_.size());
    const int error = PMPI_Pack(from, block.count, block.type, bytes_.data(), size, &at, comm_);
    if (error != MPI_SUCCESS || at == size) return error;
    return raise_on(comm_, {ECH_ERR_INVALID, kNotPacked});
  }

  // The block that begins at `offset` of what is packed.
  int empty(std::size_t offset, std::size_t bytes, void* to, const Block& block) const {
    int at = 0;
    return PMPI_Unpack(bytes_.data() + offset, static_cast<int>(bytes), &at, to, block.count,
                       block.type, comm_);
  }

 private:
  std::vector<char> bytes_;
  MPI_Comm comm_;
};

int broadcast_packed(const Served& served, const Broadcast& call, Task task) {
  Packed packed(task.count, call.comm);
  const bool root = call.root == served.channel.rank();
  const int filled = root ? packed.fill(call.data, call.block) : MPI_SUCCESS;
  if (filled != MPI_SUCCESS) return filled;
  task.send = task.recv = packed.data();
  const int code = served.run(task);
  if (code != MPI_SUCCESS || root) return code;
  return packed.empty(0, task.count, call.data, call.block);
}

std::optional<int> broadcasted(const Broadcast& call) {
  const auto bytes = signature_bytes(call.block.count, call.block.type);
  Channel* const channel = bytes ? channel_for(call.comm) : nullptr;
  if (channel == nullptr || call.root < 0 || call.root >= channel->size()) return std::nullopt;
  const Served served{Function::kBcast, call.comm, *channel};
  Task task{ECH_BROADCAST, call.data, call.data, *bytes, ECH_UINT8, ECH_SUM, call.root};
  if (is_dense(call.block.type)) return served.run(task);
  return broadcast_packed(served, call, task);
}

// Where block `rank` of a receive buffer lies.
char* block_at(const Gathering& call, int rank) {
  MPI_Aint low = 0, extent = 0;
  PMPI_Type_get_extent(call.received.type, &low, &extent);
  return static_cast<char*>(call.recv) + extent * call.received.count * rank;
}

class Gather {
 public:
  Gather(const Gathering& call, std::size_t bytes, const Served& served)
      : call_(call), bytes_(bytes), served_(served), in_place_(call.send == MPI_IN_PLACE) {}

  int run() {
    const int rank = served_.channel.rank(), size = served_.channel.size();
    const bool dense = is_dense(call_.received.type);
    const Block& sent = in_place_ ? call_.received : call_.sent;
    const void* send = in_place_ ? block_at(call_, rank) : call_.send;
    Packed mine(is_dense(sent.type) ? 0 : bytes_, call_.comm);
    if (!is_dense(sent.type)) {
      if (const int error = mine.fill(send, sent); error != MPI_SUCCESS) return error;
      send = mine.data();
    }
    Task task{ECH_ALLGATHER, send, call_.recv, bytes_};
    if (dense) return served_.run(task);
    Packed all(bytes_ * static_cast<std::size_t>(size), call_.comm);
    task.recv = all.data();
    int code = served_.run(task);
    for (int r = 0; r < size && code == MPI_SUCCESS; ++r)
      if (!in_place_ || r != rank)
        code = all.empty(bytes_ * static_cast<std::size_t>(r), bytes_, block_at(call_, r),
                         call_.received);
    return code;
  }

 private:
  const Gathering& call_;
  const std::size_t bytes_;
  const Served& served_;
  const bool in_place_;
};

std::optional<int> gathered(const Gathering& call) {
  const auto bytes = signature_bytes(call.received.count, call.received.type);
  // One address for both says that they overlap only where both begin there, without gaps.
  const bool same =
      call.send == call.recv && is_dense(call.sent.type) && is_dense(call.received.type);
  if (!bytes || call.recv == MPI_IN_PLACE || same) return std::nullopt;
  const bool in_place = call.send == MPI_IN_PLACE;
  if (!in_place && signature_bytes(call.sent.count, call.sent.type) != bytes) return std::nullopt;
  Channel* const channel = channel_for(call.comm);
  if (channel == nullptr) return std::nullopt;
  const Served served{Function::kAllgather, call.comm, *channel};
  return Gather(call, *bytes, served).run();
}

}  // namespace

std::optional<int> bcast(const Broadcast& call) {
  return serve(Function::kBcast, call.comm, [&] { return broadcasted(call); });
}

std::optional<int> allgather(const Gathering& call) {
  return serve(Function::kAllgather, call.comm, [&] { return gathered(call); });
}

std::optional<int> barrier(MPI_Comm comm) {
  return serve(Function::kBarrier, comm, [&]() -> std::optional<int> {
    Channel* const channel = channel_for(comm);
    if (channel == nullptr) return std::nullopt;
    return Served{Function::kBarrier, comm, *channel}.run({});
  });
}

}  // namespace echelon::dropin
