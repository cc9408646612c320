// SPDX-License-Identifier: Apache-2.0
// Header-only C++17 over the C ABI: owners for handles, exceptions for statuses, types for dtypes.
// Blocking, threads and errors are as echelon.h says. Nothing here adds state of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "echelon/echelon.h"

namespace ech {

class Failure : public std::runtime_error {
 public:
  explicit Failure(ech_status status) : std::runtime_error(ech_last_error()), status_(status) {}
  ech_status status() const noexcept { return status_; }

 private:
  ech_status status_;
};

inline void throw_unless_ok(ech_status status) {
  if (status != ECH_OK) throw Failure(status);
}

// dtype_of<float> is ECH_FLOAT32, and so on.
template <typename T>
struct DtypeOf;
#define ECH_DTYPE_OF(type, dtype)             \
  template <>                                 \
  struct DtypeOf<type> {                      \
    static constexpr ech_dtype value = dtype; \
  }
ECH_DTYPE_OF(std::int8_t, ECH_INT8);
ECH_DTYPE_OF(std::uint8_t, ECH_UINT8);
ECH_DTYPE_OF(std::int32_t, ECH_INT32);
ECH_DTYPE_OF(std::uint32_t, ECH_UINT32);
ECH_DTYPE_OF(std::int64_t, ECH_INT64);
ECH_DTYPE_OF(std::uint64_t, ECH_UINT64);
ECH_DTYPE_OF(float, ECH_FLOAT32);
ECH_DTYPE_OF(double, ECH_FLOAT64);
#undef ECH_DTYPE_OF
template <typename T>
inline constexpr ech_dtype dtype_of = DtypeOf<T>::value;

// A started operation. Destroying one that has not been waited for waits and ignores its failure.
// It must not outlive its communicator.
class Request {
 public:
  explicit Request(ech_request* request) : request_(request) {}
  Request(Request&& o) noexcept : request_(std::exchange(o.request_, nullptr)) {}
  Request& operator=(Request&& o) noexcept {
    std::swap(request_, o.request_);
    return *this;
  }
  ~Request() {
    if (request_ != nullptr) ech_wait(&request_);
  }

  bool test() {
    int done = 0;
    throw_unless_ok(ech_test(request_, &done));
    return done != 0;
  }
  void wait() {
    if (request_ != nullptr) throw_unless_ok(ech_wait(&request_));
  }

 private:
  ech_request* request_;
};

class Communicator {
 public:
  Communicator() : Communicator(ech_comm_options ECH_COMM_OPTIONS_INIT) {}
  explicit Communicator(const ech_comm_options& options) {
    throw_unless_ok(ech_comm_create(&comm_, &options));
  }
  explicit Communicator(ech_comm* owned) : comm_(owned) {}
  Communicator(Communicator&& o) noexcept : comm_(std::exchange(o.comm_, nullptr)) {}
  Communicator& operator=(Communicator&& o) noexcept {
    std::swap(comm_, o.comm_);
    return *this;
  }
  ~Communicator() { ech_comm_destroy(comm_); }

  ech_comm* get() const { return comm_; }
  int rank() const { return number(ech_comm_rank); }
  int size() const { return number(ech_comm_size); }
  int local_rank() const { return number(ech_comm_local_rank); }
  int local_size() const { return number(ech_comm_local_size); }
  int host_index() const { return number(ech_comm_host_index); }
  int host_count() const { return number(ech_comm_host_count); }

  // A rank with a negative color gets a communicator whose get() is nullptr.
  Communicator split(int color, int key) {
    ech_comm* part = nullptr;
    throw_unless_ok(ech_comm_split(comm_, color, key, &part));
    return Communicator(part);
  }
  void abort() { throw_unless_ok(ech_comm_abort(comm_)); }
  // A communicator of the ranks that are left after a failure of this one.
  Communicator shrink() {
    ech_comm* survivors = nullptr;
    throw_unless_ok(ech_comm_shrink(comm_, &survivors));
    return Communicator(survivors);
  }

  template <typename T>
  void allreduce(const T* send, T* recv, std::size_t count, ech_op op = ECH_SUM) {
    throw_unless_ok(ech_allreduce(send, recv, count, dtype_of<T>, op, comm_));
  }
  template <typename T>
  Request iallreduce(const T* send, T* recv, std::size_t count, ech_op op = ECH_SUM) {
    ech_request* request = nullptr;
    throw_unless_ok(ech_iallreduce(send, recv, count, dtype_of<T>, op, comm_, nullptr, &request));
    return Request(request);
  }
  template <typename T>
  void reduce_scatter(const T* send, T* recv, std::size_t count, ech_op op = ECH_SUM) {
    throw_unless_ok(ech_reduce_scatter(send, recv, count, dtype_of<T>, op, comm_));
  }
  template <typename T>
  void allgather(const T* send, T* recv, std::size_t count) {
    throw_unless_ok(ech_allgather(send, recv, count, dtype_of<T>, comm_));
  }
  template <typename T>
  void broadcast(const T* send, T* recv, std::size_t count, int root) {
    throw_unless_ok(ech_broadcast(send, recv, count, dtype_of<T>, root, comm_));
  }
  template <typename T>
  void reduce(const T* send, T* recv, std::size_t count, int root, ech_op op = ECH_SUM) {
    throw_unless_ok(ech_reduce(send, recv, count, dtype_of<T>, op, root, comm_));
  }
  void barrier() { throw_unless_ok(ech_barrier(comm_)); }

  std::string fabric(ech_format format = ECH_TEXT) const {
    char* text = nullptr;
    throw_unless_ok(ech_comm_fabric(comm_, format, &text));
    const std::unique_ptr<char, void (*)(char*)> owner(text, ech_text_free);
    return text;
  }
  std::string explain(ech_collective collective, ech_dtype dtype, std::size_t count,
                      ech_format format = ECH_TEXT) {
    ech_question question = ECH_QUESTION_INIT;
    question.collective = collective;
    question.dtype = dtype;
    question.count = count;
    char* text = nullptr;
    throw_unless_ok(ech_comm_explain(comm_, &question, format, &text));
    const std::unique_ptr<char, void (*)(char*)> owner(text, ech_text_free);
    return text;
  }

 private:
  int number(ech_status (*get)(const ech_comm*, int*)) const {
    int value = 0;
    throw_unless_ok(get(comm_, &value));
    return value;
  }

  ech_comm* comm_ = nullptr;
};

}  // namespace ech
