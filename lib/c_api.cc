// SPDX-License-Identifier: Apache-2.0
// The C ABI: validate, forward. With c_api_info.cc the only files with extern "C" functions.
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/base/time.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/unique_id.h"
#include "lib/c_arguments.h"
#include "lib/c_check.h"
#include "lib/c_handles.h"
#include "lib/c_list.h"
#include "lib/create.h"
#include "lib/guard.h"
#include "transports/cuda/driver.h"

using namespace echelon;

namespace {

Options merged_options(const ech_comm_options& o) {
  Options options = read_options([](const char* variable) { return std::getenv(variable); });
  if (o.fabric_file != nullptr) options.fabric_file = o.fabric_file;
  if (o.algorithm != nullptr) options.algorithm = o.algorithm;
  if (o.bootstrap != nullptr) options.bootstrap = o.bootstrap;
  if (o.interface_name != nullptr) options.interface_name = o.interface_name;
  if (!(o.timeout >= 0)) throw invalid("options.timeout must be a number of seconds >= 0");
  if (o.timeout > 0) options.timeout = std::min(o.timeout, kForever);
  if (o.log_level < 0 || o.log_level > ECH_LOG_DEBUG)
    throw invalid(fmt::format("options.log_level {} is none", int(o.log_level)));
  if (o.probe != 0) options.probe = o.probe > 0;
  if (o.log_level != 0) options.log_level = o.log_level;
  return options;
}

Deadline deadline_of(const Options& options) {
  return std::chrono::steady_clock::now() + from_seconds(options.timeout);
}

BootstrapOptions bootstrap_options(const ech_comm_options& o, const Options& options,
                                   const Log& log) {
  BootstrapOptions b;
  b.unique_id = o.unique_id;
  b.allgather = o.allgather;
  b.allgather_context = o.allgather_context;
  b.mode = options.bootstrap;
  b.rank = o.rank;
  b.size = o.size;
  b.interface = options.interface_name;
  b.lookup = [](const char* variable) { return std::getenv(variable); };
  b.log = log;
  return b;
}

ech_status run(Invocation in, ech_comm* comm) {
  return guarded([&] {
    check(in, comm);
    if (in.on_gpu) [[unlikely]]
      return comm->communicator->run_on_gpu(in);
    comm->communicator->run(in);
  });
}

ech_status run_in(void* stream, Invocation in, ech_comm* comm) {
  return guarded([&] {
    in.in_stream = true;
    in.stream = stream;
    check(in, comm);
    check_memory(in, *comm, ECH_MEMORY_AUTO);
    comm->communicator->run_on_gpu(in);
  });
}

ech_request& add_request(ech_comm& comm) {
  comm.requests.push_back(std::make_unique<ech_request>());
  ech_request& added = *comm.requests.back();
  added.comm = &comm;
  added.index = comm.requests.size() - 1;
  return added;
}

void remove_request(const ech_request& request) {
  auto& requests = request.comm->requests;
  const std::size_t index = request.index;
  requests.back()->index = index;
  std::swap(requests[index], requests.back());
  requests.pop_back();
}

// The request is there first, because an operation that has started cannot be taken back.
ech_request& start_request(const Invocation& in, ech_comm& comm) {
  ech_request& request = add_request(comm);
  try {
    if (in.on_gpu)
      request.on_gpu = comm.communicator->start_on_gpu(in);
    else
      request.operation = comm.communicator->start(in);
  } catch (...) {
    remove_request(request);
    throw;
  }
  return request;
}

ech_status start(Invocation in, ech_comm* comm, const ech_call* call, ech_request** request) {
  return guarded([&] {
    const ech_call settings = read_struct(call, "call");
    require(request != nullptr, "request is NULL");
    require(settings.timeout >= 0, "call.timeout must be a number of seconds >= 0");
    require(settings.memory >= ECH_MEMORY_AUTO && settings.memory <= ECH_MEMORY_CUDA,
            "call.memory is none of ech_memory");
    in.timeout = settings.timeout;
    in.stream = settings.stream;
    in.in_stream = settings.stream != nullptr;
    in.name = settings.name;
    check(in, comm);
    check_memory(in, *comm, settings.memory);
    *request = &start_request(in, *comm);
  });
}

// Reads the list and goes on as with one buffer.
template <typename Go>
ech_status with(const GivenList& list, Go go) {
  Invocation in;
  const ech_status status = guarded([&] { in = read_list(list); });
  return status == ECH_OK ? go(in) : status;
}

Invocation barrier() { return {ECH_BARRIER, nullptr, nullptr, 0, ECH_UINT8, ECH_SUM, 0, 0}; }

}  // namespace

ech_status ech_get_unique_id(ech_unique_id* id, const char* interface_name) {
  return guarded([&] {
    require(id != nullptr, "id is NULL");
    const Options options =
        read_options([](const char* variable) { return std::getenv(variable); });
    *id = encode(
        listen_for_ranks(interface_name != nullptr ? interface_name : options.interface_name));
  });
}

ech_status ech_comm_create(ech_comm** comm, const ech_comm_options* given) {
  return guarded([&] {
    require(comm != nullptr, "comm is NULL");
    const ech_comm_options o = read_struct(given, "options");
    const Options options = merged_options(o);
    const Log log{o.log, o.log_context, options.log_level};
    BootstrapOptions how = bootstrap_options(o, options, log);
    how.deadline = deadline_of(options);
    Bootstrapped found = bootstrap(how);
    log(ECH_LOG_INFO, "found the other ranks by " + found.source);
    // The library is loaded here, for the first collective not to wait for it.
    log(ECH_LOG_DEBUG, cuda_driver() != nullptr ? "the CUDA driver is there" : cuda_absence());
    auto made = std::make_unique<ech_comm>();
    made->communicator =
        create_communicator({std::move(found.control)}, options, log, how.deadline);
    *comm = made.release();
  });
}

ech_status ech_comm_split(ech_comm* parent, int color, int key, ech_comm** comm) {
  return guarded([&] {
    require(parent != nullptr, "parent is NULL");
    require(comm != nullptr, "comm is NULL");
    auto part = parent->communicator->split(color, key);
    auto made = part ? std::make_unique<ech_comm>() : nullptr;
    if (part) made->communicator = std::move(part);
    *comm = made.release();
  });
}

ech_status ech_comm_set_algorithm(ech_comm* comm, const char* algorithm) {
  return guarded([&] {
    require(comm != nullptr, "comm is NULL");
    comm->communicator->set_algorithm(algorithm == nullptr ? "" : algorithm);
  });
}

ech_status ech_comm_shrink(ech_comm* failed, ech_comm** survivors) {
  return guarded([&] {
    require(failed != nullptr, "failed is NULL");
    require(survivors != nullptr, "survivors is NULL");
    auto made = std::make_unique<ech_comm>();
    made->communicator = failed->communicator->shrink();
    *survivors = made.release();
  });
}

ech_status ech_comm_destroy(ech_comm* comm) {
  if (comm == nullptr) return ECH_OK;
  const std::unique_ptr<ech_comm> owner(comm);
  return guarded([&] { owner->communicator->close(); });
}

ech_status ech_comm_status(ech_comm* comm) {
  return guarded([&] {
    require(comm != nullptr, "comm is NULL");
    comm->communicator->status();
  });
}

ech_status ech_comm_abort(ech_comm* comm) {
  return guarded([&] {
    require(comm != nullptr, "comm is NULL");
    comm->communicator->abort();
  });
}

ech_status ech_allreduce(const void* send, void* recv, size_t count, ech_dtype dtype, ech_op op,
                         ech_comm* comm) {
  return run({ECH_ALLREDUCE, send, recv, count, dtype, op, 0, 0}, comm);
}

ech_status ech_allreduce_many(const void* const* send, void* const* recv, const size_t* counts,
                              size_t buffers, ech_dtype dtype, ech_op op, double prescale,
                              double postscale, ech_comm* comm) {
  return with({send, recv, counts, buffers, dtype, op, prescale, postscale, comm},
              [&](const Invocation& in) { return run(in, comm); });
}

ech_status ech_reduce_scatter(const void* send, void* recv, size_t count, ech_dtype dtype,
                              ech_op op, ech_comm* comm) {
  return run({ECH_REDUCE_SCATTER, send, recv, count, dtype, op, 0, 0}, comm);
}

ech_status ech_allgather(const void* send, void* recv, size_t count, ech_dtype dtype,
                         ech_comm* comm) {
  return run({ECH_ALLGATHER, send, recv, count, dtype, ECH_SUM, 0, 0}, comm);
}

ech_status ech_broadcast(const void* send, void* recv, size_t count, ech_dtype dtype, int root,
                         ech_comm* comm) {
  return run({ECH_BROADCAST, send, recv, count, dtype, ECH_SUM, root, 0}, comm);
}

ech_status ech_reduce(const void* send, void* recv, size_t count, ech_dtype dtype, ech_op op,
                      int root, ech_comm* comm) {
  return run({ECH_REDUCE, send, recv, count, dtype, op, root, 0}, comm);
}

ech_status ech_barrier(ech_comm* comm) { return run(barrier(), comm); }

ech_status ech_allreduce_on_stream(const void* send, void* recv, size_t count, ech_dtype dtype,
                                   ech_op op, ech_comm* comm, void* stream) {
  return run_in(stream, {ECH_ALLREDUCE, send, recv, count, dtype, op, 0, 0}, comm);
}

ech_status ech_allreduce_many_on_stream(const void* const* send, void* const* recv,
                                        const size_t* counts, size_t buffers, ech_dtype dtype,
                                        ech_op op, double prescale, double postscale,
                                        ech_comm* comm, void* stream) {
  return with({send, recv, counts, buffers, dtype, op, prescale, postscale, comm},
              [&](const Invocation& in) { return run_in(stream, in, comm); });
}

ech_status ech_reduce_scatter_on_stream(const void* send, void* recv, size_t count, ech_dtype dtype,
                                        ech_op op, ech_comm* comm, void* stream) {
  return run_in(stream, {ECH_REDUCE_SCATTER, send, recv, count, dtype, op, 0, 0}, comm);
}

ech_status ech_allgather_on_stream(const void* send, void* recv, size_t count, ech_dtype dtype,
                                   ech_comm* comm, void* stream) {
  return run_in(stream, {ECH_ALLGATHER, send, recv, count, dtype, ECH_SUM, 0, 0}, comm);
}

ech_status ech_broadcast_on_stream(const void* send, void* recv, size_t count, ech_dtype dtype,
                                   int root, ech_comm* comm, void* stream) {
  return run_in(stream, {ECH_BROADCAST, send, recv, count, dtype, ECH_SUM, root, 0}, comm);
}

ech_status ech_reduce_on_stream(const void* send, void* recv, size_t count, ech_dtype dtype,
                                ech_op op, int root, ech_comm* comm, void* stream) {
  return run_in(stream, {ECH_REDUCE, send, recv, count, dtype, op, root, 0}, comm);
}

ech_status ech_barrier_on_stream(ech_comm* comm, void* stream) {
  return run_in(stream, barrier(), comm);
}

ech_status ech_iallreduce(const void* send, void* recv, size_t count, ech_dtype dtype, ech_op op,
                          ech_comm* comm, const ech_call* call, ech_request** request) {
  return start({ECH_ALLREDUCE, send, recv, count, dtype, op, 0, 0}, comm, call, request);
}

ech_status ech_iallreduce_many(const void* const* send, void* const* recv, const size_t* counts,
                               size_t buffers, ech_dtype dtype, ech_op op, double prescale,
                               double postscale, ech_comm* comm, const ech_call* call,
                               ech_request** request) {
  return with({send, recv, counts, buffers, dtype, op, prescale, postscale, comm},
              [&](const Invocation& in) { return start(in, comm, call, request); });
}

ech_status ech_ireduce_scatter(const void* send, void* recv, size_t count, ech_dtype dtype,
                               ech_op op, ech_comm* comm, const ech_call* call,
                               ech_request** request) {
  return start({ECH_REDUCE_SCATTER, send, recv, count, dtype, op, 0, 0}, comm, call, request);
}

ech_status ech_iallgather(const void* send, void* recv, size_t count, ech_dtype dtype,
                          ech_comm* comm, const ech_call* call, ech_request** request) {
  return start({ECH_ALLGATHER, send, recv, count, dtype, ECH_SUM, 0, 0}, comm, call, request);
}

ech_status ech_ibroadcast(const void* send, void* recv, size_t count, ech_dtype dtype, int root,
                          ech_comm* comm, const ech_call* call, ech_request** request) {
  return start({ECH_BROADCAST, send, recv, count, dtype, ECH_SUM, root, 0}, comm, call, request);
}

ech_status ech_ireduce(const void* send, void* recv, size_t count, ech_dtype dtype, ech_op op,
                       int root, ech_comm* comm, const ech_call* call, ech_request** request) {
  return start({ECH_REDUCE, send, recv, count, dtype, op, root, 0}, comm, call, request);
}

ech_status ech_ibarrier(ech_comm* comm, const ech_call* call, ech_request** request) {
  return start(barrier(), comm, call, request);
}

ech_status ech_test(ech_request* request, int* done) {
  return guarded([&] {
    require(request != nullptr, "request is NULL");
    require(done != nullptr, "done is NULL");
    Communicator& communicator = *request->comm->communicator;
    if (request->on_gpu) {
      *done = communicator.test_on_gpu(*request->on_gpu);
      if (*done != 0) communicator.wait_on_gpu(*request->on_gpu);
      return;
    }
    const Operation* operation = request->operation;
    const bool ended = communicator.test(request->operation);
    *done = ended;
    const bool failed = ended && operation != nullptr && operation->status() != ECH_OK;
    if (failed) throw Error(operation->status(), communicator.failure());
  });
}

ech_status ech_wait(ech_request** request) {
  return guarded([&] {
    require(request != nullptr && *request != nullptr, "request is NULL");
    const ech_request given = **request;
    remove_request(**request);
    *request = nullptr;
    Communicator& communicator = *given.comm->communicator;
    if (given.on_gpu)
      communicator.wait_on_gpu(*given.on_gpu);
    else
      communicator.finish(given.operation);
  });
}

ech_status ech_wait_all(size_t count, ech_request** requests) {
  return guarded([&] {
    require(count == 0 || requests != nullptr, "requests is NULL");
    ech_status first = ECH_OK;
    std::string message;
    for (size_t k = 0; k < count; ++k) {
      const ech_status status = requests[k] != nullptr ? ech_wait(&requests[k]) : ECH_OK;
      if (status == ECH_OK || first != ECH_OK) continue;
      first = status;
      message = ech_last_error();
    }
    if (first != ECH_OK) throw Error(first, message);
  });
}
