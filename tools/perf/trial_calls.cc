// SPDX-License-Identifier: Apache-2.0
// The calls of a trial: every collective in every form.
#include "tools/perf/trial.h"

namespace echelon::perf {

void Trial::run(Form form, int times) {
  for (int i = 0; i < times; ++i) {
    if (form == Form::kBlocking) {
      block();
    } else if (form == Form::kStream) {
      enqueue(buffers_.recv.device()->stream());
    } else {
      ech_request* request = nullptr;
      start(&request);
      comm_.require(ech_wait(&request), "ech_wait");
    }
  }
  if (form == Form::kStream) buffers_.recv.device()->wait();
}

void Trial::run(Peer& peer, int times) {
  for (int i = 0; i < times; ++i) peer.allreduce(send_argument(), recv_argument(), case_);
  buffers_.recv.device()->wait();
}

// Where a side is ignored it is left out, unless both are one buffer.
const void* Trial::send_argument() const {
  if (!has_input() && !case_.in_place) return nullptr;
  return (case_.in_place ? buffers_.recv : buffers_.send).argument(send_.data());
}

void* Trial::recv_argument() const {
  return has_result() || case_.in_place ? buffers_.recv.argument(recv_.data()) : nullptr;
}

void Trial::block() {
  const Case& c = case_;
  ech_comm* const comm = comm_.get();
  const void* const send = send_argument();
  void* const recv = recv_argument();
  switch (c.collective) {
    case ECH_ALLREDUCE:
      return comm_.require(ech_allreduce(send, recv, c.count, c.dtype, c.op, comm),
                           "ech_allreduce");
    case ECH_REDUCE_SCATTER:
      return comm_.require(ech_reduce_scatter(send, recv, c.count, c.dtype, c.op, comm),
                           "ech_reduce_scatter");
    case ECH_ALLGATHER:
      return comm_.require(ech_allgather(send, recv, c.count, c.dtype, comm), "ech_allgather");
    case ECH_BROADCAST:
      return comm_.require(ech_broadcast(send, recv, c.count, c.dtype, c.root, comm),
                           "ech_broadcast");
    case ECH_REDUCE:
      return comm_.require(ech_reduce(send, recv, c.count, c.dtype, c.op, c.root, comm),
                           "ech_reduce");
    case ECH_BARRIER:
      return comm_.require(ech_barrier(comm), "ech_barrier");
  }
}

void Trial::start(ech_request** request) {
  const Case& c = case_;
  ech_comm* const comm = comm_.get();
  const void* const send = send_argument();
  void* const recv = recv_argument();
  switch (c.collective) {
    case ECH_ALLREDUCE:
      return comm_.require(
          ech_iallreduce(send, recv, c.count, c.dtype, c.op, comm, nullptr, request),
          "ech_iallreduce");
    case ECH_REDUCE_SCATTER:
      return comm_.require(
          ech_ireduce_scatter(send, recv, c.count, c.dtype, c.op, comm, nullptr, request),
          "ech_ireduce_scatter");
    case ECH_ALLGATHER:
      return comm_.require(ech_iallgather(send, recv, c.count, c.dtype, comm, nullptr, request),
                           "ech_iallgather");
    case ECH_BROADCAST:
      return comm_.require(
          ech_ibroadcast(send, recv, c.count, c.dtype, c.root, comm, nullptr, request),
          "ech_ibroadcast");
    case ECH_REDUCE:
      return comm_.require(
          ech_ireduce(send, recv, c.count, c.dtype, c.op, c.root, comm, nullptr, request),
          "ech_ireduce");
    case ECH_BARRIER:
      return comm_.require(ech_ibarrier(comm, nullptr, request), "ech_ibarrier");
  }
}

void Trial::enqueue(void* stream) {
  const Case& c = case_;
  ech_comm* const comm = comm_.get();
  const void* const send = send_argument();
  void* const recv = recv_argument();
  switch (c.collective) {
    case ECH_ALLREDUCE:
      return comm_.require(
          ech_allreduce_on_stream(send, recv, c.count, c.dtype, c.op, comm, stream),
          "ech_allreduce_on_stream");
    case ECH_REDUCE_SCATTER:
      return comm_.require(
          ech_reduce_scatter_on_stream(send, recv, c.count, c.dtype, c.op, comm, stream),
          "ech_reduce_scatter_on_stream");
    case ECH_ALLGATHER:
      return comm_.require(ech_allgather_on_stream(send, recv, c.count, c.dtype, comm, stream),
                           "ech_allgather_on_stream");
    case ECH_BROADCAST:
      return comm_.require(
          ech_broadcast_on_stream(send, recv, c.count, c.dtype, c.root, comm, stream),
          "ech_broadcast_on_stream");
    case ECH_REDUCE:
      return comm_.require(
          ech_reduce_on_stream(send, recv, c.count, c.dtype, c.op, c.root, comm, stream),
          "ech_reduce_on_stream");
    case ECH_BARRIER:
      return comm_.require(ech_barrier_on_stream(comm, stream), "ech_barrier_on_stream");
  }
}

}  // namespace echelon::perf
