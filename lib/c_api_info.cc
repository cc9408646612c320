// SPDX-License-Identifier: Apache-2.0
// The C ABI: versions, errors, numbers, texts and memory.
#include <cstdlib>
#include <cstring>

#include "lib/base/dtype.h"
#include "lib/c_arguments.h"
#include "lib/c_handles.h"
#include "lib/guard.h"
#include "transports/cuda/device_alloc.h"
#include "transports/shm/shared_alloc.h"

using namespace echelon;

namespace {

thread_local std::string message_of_last_failure;

using Number = int (Communicator::*)() const;

ech_status get(const ech_comm* comm, Number number, int* out) {
  return guarded([&] {
    require(comm != nullptr, "comm is NULL");
    require(out != nullptr, "the output is NULL");
    *out = (*comm->communicator.*number)();
  });
}

char* duplicate(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace

ech_status echelon::fail(ech_status code, const char* message) noexcept {
  try {
    message_of_last_failure = message;
  } catch (...) {
    message_of_last_failure.clear();
  }
  return code;
}

const char* echelon::last_error() noexcept { return message_of_last_failure.c_str(); }

const char* ech_last_error(void) { return last_error(); }

void ech_version(int* major, int* minor, int* patch) {
  if (major != nullptr) *major = ECH_VERSION_MAJOR;
  if (minor != nullptr) *minor = ECH_VERSION_MINOR;
  if (patch != nullptr) *patch = ECH_VERSION_PATCH;
}

const char* ech_status_name(ech_status status) { return name(status); }

ech_status ech_comm_rank(const ech_comm* comm, int* rank) {
  return get(comm, &Communicator::rank, rank);
}
ech_status ech_comm_size(const ech_comm* comm, int* size) {
  return get(comm, &Communicator::size, size);
}
ech_status ech_comm_local_rank(const ech_comm* comm, int* local_rank) {
  return get(comm, &Communicator::local_rank, local_rank);
}
ech_status ech_comm_local_size(const ech_comm* comm, int* local_size) {
  return get(comm, &Communicator::local_size, local_size);
}
ech_status ech_comm_host_index(const ech_comm* comm, int* host_index) {
  return get(comm, &Communicator::host_index, host_index);
}
ech_status ech_comm_host_count(const ech_comm* comm, int* host_count) {
  return get(comm, &Communicator::host_count, host_count);
}

ech_status ech_alloc(void** memory, size_t bytes, ech_memory kind) {
  return guarded([&] {
    require(memory != nullptr, "memory is NULL");
    require(bytes > 0, "bytes is 0");
    require(kind >= ECH_MEMORY_AUTO && kind <= ECH_MEMORY_CUDA, "kind is none of ech_memory");
    *memory = kind == ECH_MEMORY_CUDA ? device_alloc(bytes) : shared_alloc(bytes);
  });
}

ech_status ech_free(void* memory) {
  return guarded([&] {
    if (memory != nullptr && !device_free(memory)) shared_free(memory);
  });
}

ech_status ech_comm_fabric(const ech_comm* comm, ech_format format, char** text) {
  return guarded([&] {
    require(comm != nullptr, "comm is NULL");
    require(text != nullptr, "text is NULL");
    require(format >= ECH_TEXT && format <= ECH_TOML, "format is none of ech_format");
    *text = duplicate(comm->communicator->fabric_text(format));
  });
}

ech_status ech_comm_explain(ech_comm* comm, const ech_question* question, ech_format format,
                            char** text) {
  return guarded([&] {
    require(comm != nullptr, "comm is NULL");
    require(question != nullptr, "question is NULL");
    require(text != nullptr, "text is NULL");
    require(format == ECH_TEXT || format == ECH_JSON, "format must be text or JSON");
    const ech_question q = read_struct(question, "question");
    require(is_valid(q.collective), "question.collective is none");
    require(is_valid(q.dtype), "question.dtype is none");
    require(is_valid(q.op), "question.op is none");
    require(q.memory >= ECH_MEMORY_AUTO && q.memory <= ECH_MEMORY_CUDA,
            "question.memory is none of ech_memory");
    Communicator& c = *comm->communicator;
    const std::size_t bytes = buffer_bytes(q.collective, q.count, q.dtype, c.size());
    const bool on_gpu = q.memory == ECH_MEMORY_CUDA;
    const Choice choice = q.collective == ECH_BARRIER ? c.explain(ECH_ALLREDUCE, 1, on_gpu)
                                                      : c.explain(q.collective, bytes, on_gpu);
    *text = duplicate(format == ECH_TEXT ? explain_text(choice) : explain_json(choice));
  });
}

void ech_text_free(char* text) { std::free(text); }

ech_status ech_comm_counters(const ech_comm* comm, ech_counters* counters) {
  return guarded([&] {
    require(comm != nullptr, "comm is NULL");
    require(counters != nullptr, "counters is NULL");
    require(counters->struct_size >= sizeof counters->struct_size, "counters.struct_size is 0");
    ech_counters now = comm->communicator->counters();
    now.struct_size = std::min(counters->struct_size, sizeof now);
    std::memcpy(counters, &now, now.struct_size);
  });
}

ech_status ech_comm_stats(const ech_comm* comm, ech_stats* stats) {
  return guarded([&] {
    require(comm != nullptr, "comm is NULL");
    require(stats != nullptr, "stats is NULL");
    require(stats->struct_size >= sizeof stats->struct_size, "stats.struct_size is 0");
    ech_stats now{};
    const std::size_t known = std::min(stats->struct_size, sizeof now);
    std::memcpy(&now, stats, known);  // with the caller's arrays
    comm->communicator->statistics(now);
    now.struct_size = known;
    std::memcpy(stats, &now, known);
  });
}
