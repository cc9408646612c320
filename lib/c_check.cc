// SPDX-License-Identifier: Apache-2.0
#include "lib/c_check.h"

#include <fmt/format.h>

#include "lib/base/dtype.h"
#include "lib/c_arguments.h"
#include "lib/guard.h"

namespace echelon {
namespace {

using Extent = std::size_t;

// Partial overlap of two buffers; the allowed in-place forms have `same` set.
bool overlap(const void* a, Extent a_bytes, const void* b, Extent b_bytes) {
  const auto pa = reinterpret_cast<std::uintptr_t>(a), pb = reinterpret_cast<std::uintptr_t>(b);
  return pa < pb + b_bytes && pb < pa + a_bytes;
}

// Where recv would be if the operation is in place.
const char* in_place_recv(const Invocation& in, const Communicator& comm, Extent block) {
  const char* send = static_cast<const char*>(in.send);
  const Extent shift = block * comm.rank();
  if (in.collective == ECH_REDUCE_SCATTER) return send + shift;
  if (in.collective == ECH_ALLGATHER) return send - shift;
  return send;
}

// Of the buffers that this rank gives; at least one is in the memory of a GPU.
void check_places(const PointerPlace* send, const PointerPlace* recv, Communicator& comm) {
  if (send != nullptr && recv != nullptr && send->kind != recv->kind)
    throw invalid(fmt::format("send is in {}, but recv in {}", text_of(*send), text_of(*recv)));
  if (send != nullptr) check_device("send", *send, comm);
  if (recv != nullptr) check_device("recv", *recv, comm);
}

void check_buffers(Invocation& in, Communicator& comm) {
  if (in.count == 0 || in.list) return;
  const bool is_root = in.root == comm.rank();
  const bool reads = in.collective != ECH_BROADCAST || is_root;
  const bool writes = in.collective != ECH_REDUCE || is_root;
  require(!reads || in.send != nullptr, "send is NULL");
  require(!writes || in.recv != nullptr, "recv is NULL");
  const Extent block = in.count * size_of(in.dtype);
  const bool many_in = in.collective == ECH_REDUCE_SCATTER;
  const bool many_out = in.collective == ECH_ALLGATHER;
  const Extent larger = buffer_bytes(in.collective, in.count, in.dtype, comm.size());
  const PointerPlace send = place_of(reads ? in.send : in.recv);
  const bool other = writes && reads && in.recv != in.send;
  const PointerPlace recv = other ? place_of(in.recv) : send;
  if (send.kind == MemoryKind::kDevice || recv.kind == MemoryKind::kDevice) [[unlikely]] {
    check_places(reads ? &send : nullptr, writes ? &recv : nullptr, comm);
    in.on_gpu = true;
  }
  if (!reads || !writes || in.recv == in_place_recv(in, comm, block)) return;
  require(!overlap(in.send, many_in ? larger : block, in.recv, many_out ? larger : block),
          "send and recv overlap; see \"in place\" in echelon.h");
}

}  // namespace

std::string text_of(const PointerPlace& place) {
  return place.kind == MemoryKind::kHost
             ? std::string("host memory")
             : fmt::format("the memory of CUDA device {}", place.device);
}

void check_device(const std::string& buffer, const PointerPlace& place, Communicator& comm) {
  const CudaDevice device = comm.gpu().device().device();
  if (place.device != device)
    throw invalid(fmt::format("{} is in {}, but the communicator uses device {}", buffer,
                              text_of(place), device));
}

void check(Invocation& in, const ech_comm* comm) {
  require(comm != nullptr, "comm is NULL");
  if (!is_valid(in.dtype)) throw invalid(fmt::format("dtype {} is none", int(in.dtype)));
  if (!is_valid(in.op)) throw invalid(fmt::format("op {} is none", int(in.op)));
  const int size = comm->communicator->size();
  if (in.root < 0 || in.root >= size)
    throw invalid(fmt::format("root {} is not in [0, {})", in.root, size));
  check_buffers(in, *comm->communicator);
}

void check_memory(Invocation& in, const ech_comm& comm, ech_memory said) {
  if (in.in_stream || said == ECH_MEMORY_CUDA) comm.communicator->gpu();
  if (in.collective == ECH_BARRIER) {
    in.on_gpu = in.in_stream || said == ECH_MEMORY_CUDA;
  } else if (in.count > 0) {
    require(!in.in_stream || in.on_gpu, "the buffers are in host memory: it has no CUDA stream");
    require(said != ECH_MEMORY_CUDA || in.on_gpu,
            "call.memory says CUDA, but the buffers are in host memory");
    require(said != ECH_MEMORY_HOST || !in.on_gpu,
            "call.memory says host, but the buffers are in CUDA memory");
  }
}

}  // namespace echelon
