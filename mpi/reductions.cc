// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "mpi/collectives.h"
#include "mpi/serve.h"

namespace echelon::dropin {
namespace {

// Nothing for what Echelon does not add, and for arguments that MPI would refuse.
std::optional<Task> task_of(ech_collective collective, const Reduction& call) {
  const auto dtype = dtype_of(call.type);
  const auto op = op_of(call.op);
  if (!dtype || !op || call.count <= 0) return std::nullopt;
  Task task{collective, call.send, call.recv, static_cast<std::size_t>(call.count),
            *dtype,     *op,       call.root};
  return task;
}

bool is_in_place(const void* send) { return send == MPI_IN_PLACE; }

// One buffer given for both, or none: MPI has something to say about it.
bool are_buffers(const void* send, const void* recv) {
  return send != nullptr && recv != nullptr && recv != MPI_IN_PLACE && send != recv;
}

std::optional<Task> allreduce_task(const Reduction& call) {
  std::optional<Task> task = task_of(ECH_ALLREDUCE, call);
  if (!are_buffers(call.send, call.recv)) return std::nullopt;
  if (task && is_in_place(call.send)) task->send = call.recv;
  return task;
}

// Echelon leaves the result in its place among the inputs; MPI wants it at the beginning, and the
// rest as it was.
int reduce_scatter_in_place(const Served& served, Task task) {
  std::vector<char> result(task.count * size_of(task.dtype));
  void* const recv = task.recv;
  task.send = recv;
  task.recv = result.data();
  const int code = served.run(task);
  if (code == MPI_SUCCESS) std::memcpy(recv, result.data(), result.size());
  return code;
}

// `counts`: of every rank's block; null where one count is for all.
std::optional<int> scattered(Function function, const Reduction& call, const int* counts) {
  const std::optional<Task> task = task_of(ECH_REDUCE_SCATTER, call);
  if (!task || !are_buffers(call.send, call.recv)) return std::nullopt;
  Channel* const channel = channel_for(call.comm);
  if (channel == nullptr) return std::nullopt;
  const auto equal = [&](int count) { return count == call.count; };
  if (counts != nullptr && !std::all_of(counts, counts + channel->size(), equal)) return {};
  const Served served{function, call.comm, *channel};
  return is_in_place(call.send) ? reduce_scatter_in_place(served, *task) : served.run(*task);
}

// The root's receive buffer, and whether data is in place, are known to the root alone.
std::optional<int> reduced(const Reduction& call) {
  std::optional<Task> task = task_of(ECH_REDUCE, call);
  if (!task) return std::nullopt;
  Channel* const channel = channel_for(call.comm);
  if (channel == nullptr || call.root < 0 || call.root >= channel->size()) return std::nullopt;
  const bool root = call.root == channel->rank();
  if (root && !are_buffers(call.send, call.recv)) return std::nullopt;
  if (!root && (call.send == nullptr || is_in_place(call.send))) return std::nullopt;
  if (root && is_in_place(call.send)) task->send = call.recv;
  return Served{Function::kReduce, call.comm, *channel}.run(*task);
}

}  // namespace

std::optional<int> allreduce(const Reduction& call) {
  return serve(Function::kAllreduce, call.comm, [&]() -> std::optional<int> {
    const std::optional<Task> task = allreduce_task(call);
    Channel* const channel = task ? channel_for(call.comm) : nullptr;
    if (channel == nullptr) return std::nullopt;
    return Served{Function::kAllreduce, call.comm, *channel}.run(*task);
  });
}

// Must not wait for other ranks, so it makes no channel.
std::optional<int> iallreduce(const Reduction& call, MPI_Request* request) {
  return serve(Function::kIallreduce, call.comm, [&]() -> std::optional<int> {
    const std::optional<Task> task = allreduce_task(call);
    Channel* const channel = task && request != nullptr ? existing_channel(call.comm) : nullptr;
    if (channel == nullptr) return std::nullopt;
    const Outcome outcome = channel->start(*task, request);
    count_served(Function::kIallreduce, bytes_of(*task, channel->size()));
    return raise_on(call.comm, outcome);
  });
}

std::optional<int> reduce(const Reduction& call) {
  return serve(Function::kReduce, call.comm, [&] { return reduced(call); });
}

std::optional<int> reduce_scatter_block(const Reduction& call) {
  return serve(Function::kReduceScatterBlock, call.comm,
               [&] { return scattered(Function::kReduceScatterBlock, call, nullptr); });
}

std::optional<int> reduce_scatter(Reduction call, const int* counts) {
  return serve(Function::kReduceScatter, call.comm, [&]() -> std::optional<int> {
    if (counts == nullptr) return std::nullopt;
    call.count = counts[0];
    return scattered(Function::kReduceScatter, call, counts);
  });
}

}  // namespace echelon::dropin
