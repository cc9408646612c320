// SPDX-License-Identifier: Apache-2.0
// Header-only C++17 over the C ABI: owners for handles, exceptions for statuses, types for dtypes.
// Blocking, threads and errors are as echelon.h says. Nothing here adds state of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "echelon/echelon.h"

namespace ech {

// What every function here throws.
class Error : public std::runtime_error {
 public:
  explicit Error(ech_status status) : std::runtime_error(ech_last_error()), status_(status) {}
  ech_status status() const noexcept { return status_; }

 private:
  ech_status status_;
};

inline void throw_unless_ok(ech_status status) {
  if (status != ECH_OK) throw Error(status);
}

// ---- types of elements --------------------------------------------------------------------------

// Bits of 16-bit floats, for programs that have no type of their own for them.
struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

// dtype_of<float> is ECH_FLOAT32, and so on. Specialize DtypeOf for a half type of your own.
template <typename T>
struct DtypeOf;
template <ech_dtype dtype>
using DtypeIs = std::integral_constant<ech_dtype, dtype>;
template <>
struct DtypeOf<std::int8_t> : DtypeIs<ECH_INT8> {};
template <>
struct DtypeOf<std::uint8_t> : DtypeIs<ECH_UINT8> {};
template <>
struct DtypeOf<std::int32_t> : DtypeIs<ECH_INT32> {};
template <>
struct DtypeOf<std::uint32_t> : DtypeIs<ECH_UINT32> {};
template <>
struct DtypeOf<std::int64_t> : DtypeIs<ECH_INT64> {};
template <>
struct DtypeOf<std::uint64_t> : DtypeIs<ECH_UINT64> {};
template <>
struct DtypeOf<Float16> : DtypeIs<ECH_FLOAT16> {};
template <>
struct DtypeOf<Bfloat16> : DtypeIs<ECH_BFLOAT16> {};
template <>
struct DtypeOf<float> : DtypeIs<ECH_FLOAT32> {};
template <>
struct DtypeOf<double> : DtypeIs<ECH_FLOAT64> {};
template <typename T>
inline constexpr ech_dtype dtype_of = DtypeOf<T>::value;

// ---- memory -------------------------------------------------------------------------------------

// `size` zeroed elements that the ranks of this host can map: ech_alloc. Destroy it after the last
// operation on it has ended.
template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    const std::size_t bytes = size > SIZE_MAX / sizeof(T) ? SIZE_MAX : size * sizeof(T);
    void* memory = nullptr;
    throw_unless_ok(ech_alloc(&memory, bytes, ECH_MEMORY_HOST));
    data_.reset(static_cast<T*>(memory));
  }

  T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return data_ ? size_ : 0; }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + size(); }
  T& operator[](std::size_t i) const noexcept { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* memory) const noexcept { ech_free(memory); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

// Buffers for Communicator::allreduce_many, and what their elements are multiplied by.
template <typename T>
class BufferList {
 public:
  explicit BufferList(double prescale = 1, double postscale = 1)
      : prescale_(prescale), postscale_(postscale) {}
  void add(const T* send, T* recv, std::size_t count) {
    send_.push_back(send);
    recv_.push_back(recv);
    counts_.push_back(count);
  }

  const void* const* send() const noexcept { return send_.data(); }
  void* const* recv() const noexcept { return recv_.data(); }
  const std::size_t* counts() const noexcept { return counts_.data(); }
  std::size_t size() const noexcept { return counts_.size(); }
  double prescale() const noexcept { return prescale_; }
  double postscale() const noexcept { return postscale_; }

 private:
  std::vector<const void*> send_;
  std::vector<void*> recv_;
  std::vector<std::size_t> counts_;
  double prescale_, postscale_;
};

// ---- requests -----------------------------------------------------------------------------------

// A started operation. Destroying one that has not been waited for waits and ignores its failure.
// It must not outlive its communicator. One that is empty has ended.
class Request {
 public:
  Request() = default;
  explicit Request(ech_request* owned) : request_(owned) {}

  // Makes progress; whether the operation has ended.
  bool test() {
    int done = 1;
    if (request_) throw_unless_ok(ech_test(request_.get(), &done));
    return done != 0;
  }
  void wait() {
    ech_request* request = request_.release();
    if (request != nullptr) throw_unless_ok(ech_wait(&request));
  }
  ech_request* get() const noexcept { return request_.get(); }
  ech_request* release() noexcept { return request_.release(); }

 private:
  struct Wait {
    void operator()(ech_request* request) const noexcept { ech_wait(&request); }
  };
  std::unique_ptr<ech_request, Wait> request_;
};

// Waits for all; throws the first failure after all have ended. `requests` are empty then.
inline void wait_all(std::vector<Request>& requests) {
  std::vector<ech_request*> handles(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) handles[i] = requests[i].release();
  throw_unless_ok(ech_wait_all(handles.size(), handles.data()));
}

// ---- communicators ------------------------------------------------------------------------------

// For rank 0; the other ranks get its bytes from there.
inline ech_unique_id unique_id(const char* interface_name = nullptr) {
  ech_unique_id id;
  throw_unless_ok(ech_get_unique_id(&id, interface_name));
  return id;
}

// As ech_stats, with its arrays.
struct Statistics {
  ech_stats numbers = ECH_STATS_INIT;
  std::vector<double> latenesses;   // by rank
  std::vector<double> throughputs;  // by host
};

// Destroying it is collective and ignores failures; destroy() throws them. An empty one, which
// was moved from or destroyed, may only be assigned to, asked and destroyed.
// The buffers of the nonblocking forms belong to the operation until its request has ended.
class Communicator {
 public:
  Communicator() : Communicator(ech_comm_options ECH_COMM_OPTIONS_INIT) {}
  explicit Communicator(const ech_comm_options& options) {
    ech_comm* made = nullptr;
    throw_unless_ok(ech_comm_create(&made, &options));
    comm_.reset(made);
  }
  explicit Communicator(ech_comm* owned) noexcept : comm_(owned) {}
  void destroy() { throw_unless_ok(ech_comm_destroy(comm_.release())); }

  explicit operator bool() const noexcept { return comm_ != nullptr; }
  ech_comm* get() const noexcept { return comm_.get(); }
  int rank() const { return number(ech_comm_rank); }
  int size() const { return number(ech_comm_size); }
  int local_rank() const { return number(ech_comm_local_rank); }
  int local_size() const { return number(ech_comm_local_size); }
  int host_index() const { return number(ech_comm_host_index); }
  int host_count() const { return number(ech_comm_host_count); }

  // A rank with a negative color gets an empty communicator.
  Communicator split(int color, int key) {
    ech_comm* part = nullptr;
    throw_unless_ok(ech_comm_split(get(), color, key, &part));
    return Communicator(part);
  }
  void abort() { throw_unless_ok(ech_comm_abort(get())); }
  // A communicator of the ranks that are left after a failure of this one.
  Communicator shrink() {
    ech_comm* survivors = nullptr;
    throw_unless_ok(ech_comm_shrink(get(), &survivors));
    return Communicator(survivors);
  }

  template <typename T>
  void allreduce(const T* send, T* recv, std::size_t count, ech_op op = ECH_SUM) {
    throw_unless_ok(ech_allreduce(send, recv, count, dtype_of<T>, op, get()));
  }
  template <typename T>
  void allreduce_many(const BufferList<T>& list, ech_op op = ECH_SUM) {
    throw_unless_ok(ech_allreduce_many(list.send(), list.recv(), list.counts(), list.size(),
                                       dtype_of<T>, op, list.prescale(), list.postscale(), get()));
  }
  template <typename T>
  void reduce_scatter(const T* send, T* recv, std::size_t count, ech_op op = ECH_SUM) {
    throw_unless_ok(ech_reduce_scatter(send, recv, count, dtype_of<T>, op, get()));
  }
  template <typename T>
  void allgather(const T* send, T* recv, std::size_t count) {
    throw_unless_ok(ech_allgather(send, recv, count, dtype_of<T>, get()));
  }
  template <typename T>
  void broadcast(const T* send, T* recv, std::size_t count, int root) {
    throw_unless_ok(ech_broadcast(send, recv, count, dtype_of<T>, root, get()));
  }
  template <typename T>
  void reduce(const T* send, T* recv, std::size_t count, int root, ech_op op = ECH_SUM) {
    throw_unless_ok(ech_reduce(send, recv, count, dtype_of<T>, op, root, get()));
  }
  void barrier() { throw_unless_ok(ech_barrier(get())); }

  // On CUDA memory: begin after what is in `stream`, and return when they have ended.
  template <typename T>
  void allreduce_on_stream(const T* send, T* recv, std::size_t count, ech_op op, void* stream) {
    throw_unless_ok(ech_allreduce_on_stream(send, recv, count, dtype_of<T>, op, get(), stream));
  }
  template <typename T>
  void allreduce_many_on_stream(const BufferList<T>& list, ech_op op, void* stream) {
    throw_unless_ok(ech_allreduce_many_on_stream(list.send(), list.recv(), list.counts(),
                                                 list.size(), dtype_of<T>, op, list.prescale(),
                                                 list.postscale(), get(), stream));
  }
  template <typename T>
  void reduce_scatter_on_stream(const T* send, T* recv, std::size_t count, ech_op op,
                                void* stream) {
    throw_unless_ok(
        ech_reduce_scatter_on_stream(send, recv, count, dtype_of<T>, op, get(), stream));
  }
  template <typename T>
  void allgather_on_stream(const T* send, T* recv, std::size_t count, void* stream) {
    throw_unless_ok(ech_allgather_on_stream(send, recv, count, dtype_of<T>, get(), stream));
  }
  template <typename T>
  void broadcast_on_stream(const T* send, T* recv, std::size_t count, int root, void* stream) {
    throw_unless_ok(ech_broadcast_on_stream(send, recv, count, dtype_of<T>, root, get(), stream));
  }
  template <typename T>
  void reduce_on_stream(const T* send, T* recv, std::size_t count, int root, ech_op op,
                        void* stream) {
    throw_unless_ok(ech_reduce_on_stream(send, recv, count, dtype_of<T>, op, root, get(), stream));
  }
  void barrier_on_stream(void* stream) { throw_unless_ok(ech_barrier_on_stream(get(), stream)); }

  // Throws the failure after which no operation can succeed any more, if there is one.
  void check() { throw_unless_ok(ech_comm_status(get())); }

  template <typename T>
  Request iallreduce(const T* send, T* recv, std::size_t count, ech_op op = ECH_SUM,
                     const ech_call* call = nullptr) {
    return started([&](ech_request** request) {
      return ech_iallreduce(send, recv, count, dtype_of<T>, op, get(), call, request);
    });
  }
  template <typename T>
  Request iallreduce_many(const BufferList<T>& list, ech_op op = ECH_SUM,
                          const ech_call* call = nullptr) {
    return started([&](ech_request** request) {
      return ech_iallreduce_many(list.send(), list.recv(), list.counts(), list.size(), dtype_of<T>,
                                 op, list.prescale(), list.postscale(), get(), call, request);
    });
  }
  template <typename T>
  Request ireduce_scatter(const T* send, T* recv, std::size_t count, ech_op op = ECH_SUM,
                          const ech_call* call = nullptr) {
    return started([&](ech_request** request) {
      return ech_ireduce_scatter(send, recv, count, dtype_of<T>, op, get(), call, request);
    });
  }
  template <typename T>
  Request iallgather(const T* send, T* recv, std::size_t count, const ech_call* call = nullptr) {
    return started([&](ech_request** request) {
      return ech_iallgather(send, recv, count, dtype_of<T>, get(), call, request);
    });
  }
  template <typename T>
  Request ibroadcast(const T* send, T* recv, std::size_t count, int root,
                     const ech_call* call = nullptr) {
    return started([&](ech_request** request) {
      return ech_ibroadcast(send, recv, count, dtype_of<T>, root, get(), call, request);
    });
  }
  template <typename T>
  Request ireduce(const T* send, T* recv, std::size_t count, int root, ech_op op = ECH_SUM,
                  const ech_call* call = nullptr) {
    return started([&](ech_request** request) {
      return ech_ireduce(send, recv, count, dtype_of<T>, op, root, get(), call, request);
    });
  }
  Request ibarrier(const ech_call* call = nullptr) {
    return started([&](ech_request** request) { return ech_ibarrier(get(), call, request); });
  }

  // "": as the library chooses.
  void set_algorithm(const std::string& algorithm) {
    throw_unless_ok(ech_comm_set_algorithm(get(), algorithm.empty() ? nullptr : algorithm.c_str()));
  }
  std::string fabric(ech_format format = ECH_TEXT) const {
    char* text = nullptr;
    throw_unless_ok(ech_comm_fabric(get(), format, &text));
    return owned(text);
  }
  // The plan for such an operation on `count` elements of T.
  template <typename T>
  std::string explain(ech_collective collective, std::size_t count, ech_op op = ECH_SUM,
                      ech_format format = ECH_TEXT) {
    ech_question question = ECH_QUESTION_INIT;
    question.collective = collective;
    question.op = op;
    question.dtype = dtype_of<T>;
    question.count = count;
    char* text = nullptr;
    throw_unless_ok(ech_comm_explain(get(), &question, format, &text));
    return owned(text);
  }
  ech_counters counters() const {
    ech_counters now{};
    now.struct_size = sizeof now;
    throw_unless_ok(ech_comm_counters(get(), &now));
    return now;
  }

  Statistics statistics() const {
    Statistics all;
    all.latenesses.resize(static_cast<std::size_t>(size()));
    all.throughputs.resize(static_cast<std::size_t>(host_count()));
    all.numbers.latenesses = all.latenesses.data();
    all.numbers.throughputs = all.throughputs.data();
    throw_unless_ok(ech_comm_stats(get(), &all.numbers));
    all.numbers.latenesses = all.numbers.throughputs = nullptr;  // a copy would have others
    return all;
  }

 private:
  struct Destroy {
    void operator()(ech_comm* comm) const noexcept { ech_comm_destroy(comm); }
  };

  int number(ech_status (*get_number)(const ech_comm*, int*)) const {
    int value = 0;
    throw_unless_ok(get_number(get(), &value));
    return value;
  }
  template <typename Start>
  static Request started(Start start) {
    ech_request* request = nullptr;
    throw_unless_ok(start(&request));
    return Request(request);
  }
  static std::string owned(char* text) {
    const std::unique_ptr<char, void (*)(char*)> owner(text, ech_text_free);
    return text;
  }

  std::unique_ptr<ech_comm, Destroy> comm_;
};

}  // namespace ech
