// SPDX-License-Identifier: Apache-2.0
// Wrong arguments, and the calls that only tell something: on a communicator of one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "echelon/echelon.h"

namespace echelon::test {
namespace {

template <typename T>
T bad(int value) {
  return static_cast<T>(value);
}

ech_status create(ech_comm** comm, const std::function<void(ech_comm_options&)>& change) {
  ech_comm_options options = ECH_COMM_OPTIONS_INIT;
  ech_unique_id id;
  EXPECT_EQ(ech_get_unique_id(&id, "lo"), ECH_OK) << ech_last_error();
  options.unique_id = &id;
  options.size = 1;
  options.interface_name = "lo";
  options.timeout = 20;
  change(options);
  return ech_comm_create(comm, &options);
}

class Arguments : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(create(&comm, [](ech_comm_options&) {}), ECH_OK) << ech_last_error();
  }
  void TearDown() override { EXPECT_EQ(ech_comm_destroy(comm), ECH_OK) << ech_last_error(); }

  // `status` says that the argument `what` is wrong.
  static void expect_invalid(ech_status status, const std::string& what) {
    EXPECT_EQ(status, ECH_ERR_INVALID) << what;
    const std::string message = ech_last_error();
    EXPECT_NE(message.find(what), message.npos) << "\"" << message << "\" lacks " << what;
    EXPECT_EQ(message.find('\n'), message.npos);
  }

  ech_comm* comm = nullptr;
  float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {};
};

TEST_F(Arguments, OfCollectives) {
  const auto f32 = ECH_FLOAT32;
  const auto sum = ECH_SUM;
  expect_invalid(ech_allreduce(a, b, 8, f32, sum, nullptr), "comm");
  expect_invalid(ech_allreduce(nullptr, b, 8, f32, sum, comm), "send");
  expect_invalid(ech_allreduce(a, nullptr, 8, f32, sum, comm), "recv");
  expect_invalid(ech_allreduce(a, b, 8, bad<ech_dtype>(10), sum, comm), "dtype");
  expect_invalid(ech_allreduce(a, b, 8, bad<ech_dtype>(-1), sum, comm), "dtype");
  expect_invalid(ech_allreduce(a, b, 8, f32, bad<ech_op>(5), comm), "op");
  expect_invalid(ech_allreduce(a, b, 8, f32, bad<ech_op>(-1), comm), "op");
  expect_invalid(ech_allreduce(a, a + 1, 4, f32, sum, comm), "overlap");
  expect_invalid(ech_allreduce(a, b, SIZE_MAX / 2, f32, sum, comm), "count");
  expect_invalid(ech_allreduce(a, b, SIZE_MAX, f32, sum, comm), "count");
  expect_invalid(ech_reduce_scatter(a, nullptr, 8, f32, sum, comm), "recv");
  expect_invalid(ech_reduce_scatter(a, a + 1, 4, f32, sum, comm), "overlap");
  expect_invalid(ech_allgather(nullptr, b, 8, f32, comm), "send");
  expect_invalid(ech_allgather(a, a + 1, 4, f32, comm), "overlap");
  expect_invalid(ech_broadcast(a, b, 8, f32, 1, comm), "root");
  expect_invalid(ech_broadcast(a, b, 8, f32, -1, comm), "root");
  expect_invalid(ech_reduce(a, b, 8, f32, sum, 1, comm), "root");
  expect_invalid(ech_reduce(a, nullptr, 8, f32, sum, 0, comm), "recv");
  expect_invalid(ech_barrier(nullptr), "comm");
  for (float value : b) EXPECT_EQ(value, 0) << "a refused call wrote to recv";
  EXPECT_EQ(a[1], 2);
  EXPECT_EQ(ech_allreduce(a, b, 8, f32, sum, comm), ECH_OK) << "a refused call changed something";
  EXPECT_EQ(b[7], 8);
}

class ManyArguments : public Arguments {
 protected:
  ech_status many() {
    return ech_allreduce_many(send, recv, counts, 3, dtype, op, before, after, comm);
  }

  // `value` is what `place` must not be.
  template <typename T, typename V>
  void expect_wrong(T& place, V value, const char* what) {
    const T right = std::exchange(place, value);
    expect_invalid(many(), what);
    place = right;
  }

  float c[8] = {};
  const void* send[3] = {a, nullptr, c};
  void* recv[3] = {b, nullptr, c};
  std::size_t counts[3] = {8, 0, 8};
  ech_dtype dtype = ECH_FLOAT32;
  ech_op op = ECH_SUM;
  double before = 1, after = 1;
};

TEST_F(ManyArguments, AreRefused) {
  expect_wrong(comm, nullptr, "comm");
  expect_wrong(dtype, bad<ech_dtype>(10), "dtype");
  expect_wrong(op, bad<ech_op>(-1), "op");
  expect_wrong(send[0], nullptr, "send[0] is NULL");
  expect_wrong(recv[2], nullptr, "recv[2] is NULL");
  expect_wrong(recv[2], b + 7, "recv[0] and recv[2] overlap");
  expect_wrong(recv[2], a, "send[0] and recv[2] overlap");
  expect_wrong(send[2], c + 1, "send[2] and recv[2] overlap");
  expect_wrong(counts[2], SIZE_MAX / 4, "counts[2]");
  expect_wrong(counts[0], PTRDIFF_MAX / 4 - 7, "counts[2]");
  expect_invalid(ech_allreduce_many(nullptr, recv, counts, 3, dtype, op, 1, 1, comm), "send");
  expect_invalid(ech_allreduce_many(send, nullptr, counts, 3, dtype, op, 1, 1, comm), "recv");
  expect_invalid(ech_allreduce_many(send, recv, nullptr, 3, dtype, op, 1, 1, comm), "counts");
  expect_invalid(
      ech_iallreduce_many(send, recv, counts, 3, dtype, op, 1, 1, comm, nullptr, nullptr),
      "request");
  EXPECT_EQ(ech_allreduce_many_on_stream(send, recv, counts, 3, dtype, op, 1, 1, comm, nullptr),
            ECH_ERR_UNSUPPORTED);
  dtype = ECH_INT32;
  expect_wrong(before, 0.5, "prescale is 0.5, but elements of type i32");
  expect_wrong(after, std::nan(""), "postscale");
  for (float value : b) EXPECT_EQ(value, 0) << "a refused call wrote to recv";
}

TEST_F(ManyArguments, AreTaken) {
  EXPECT_EQ(ech_allreduce_many(nullptr, nullptr, nullptr, 0, dtype, op, 2, 3, comm), ECH_OK);
  send[2] = a;  // may be read twice
  before = 2, after = 0.25;
  EXPECT_EQ(many(), ECH_OK) << ech_last_error();
  EXPECT_EQ(b[7], 4);
  EXPECT_EQ(c[7], 4);
  EXPECT_EQ(a[7], 8);
}

TEST_F(Arguments, OfRequests) {
  auto* const untouched = reinterpret_cast<ech_request*>(1);
  ech_request* request = untouched;
  const auto start = [&](const std::function<void(ech_call&)>& change) {
    ech_call call = ECH_CALL_INIT;
    change(call);
    return ech_iallreduce(a, b, 8, ECH_FLOAT32, ECH_SUM, comm, &call, &request);
  };
  expect_invalid(start([](ech_call& c) { c.struct_size = 0; }), "call.struct_size");
  expect_invalid(start([](ech_call& c) { c.struct_size = 1 << 20; }), "call.struct_size");
  expect_invalid(start([](ech_call& c) { c.timeout = -1; }), "call.timeout");
  expect_invalid(start([](ech_call& c) { c.timeout = std::nan(""); }), "call.timeout");
  expect_invalid(start([](ech_call& c) { c.memory = bad<ech_memory>(9); }), "call.memory");
  EXPECT_EQ(start([](ech_call& c) { c.memory = ECH_MEMORY_CUDA; }), ECH_ERR_UNSUPPORTED);
  EXPECT_EQ(start([](ech_call& c) { c.stream = &c; }), ECH_ERR_UNSUPPORTED);
  expect_invalid(ech_barrier_on_stream(nullptr, nullptr), "comm");
  EXPECT_EQ(ech_allreduce_on_stream(a, b, 8, ECH_FLOAT32, ECH_SUM, comm, nullptr),
            ECH_ERR_UNSUPPORTED);
  expect_invalid(ech_comm_status(nullptr), "comm");
  EXPECT_EQ(ech_comm_status(comm), ECH_OK);
  expect_invalid(ech_iallreduce(a, b, 8, ECH_FLOAT32, ECH_SUM, comm, nullptr, nullptr), "request");
  expect_invalid(ech_ibarrier(nullptr, nullptr, &request), "comm");
  EXPECT_EQ(request, untouched);
  int done = 7;
  expect_invalid(ech_test(nullptr, &done), "request");
  EXPECT_EQ(done, 7);
  request = nullptr;
  expect_invalid(ech_wait(&request), "request");
  expect_invalid(ech_wait(nullptr), "request");
  expect_invalid(ech_wait_all(1, nullptr), "requests");
  ASSERT_EQ(start([](ech_call& c) { c.timeout = HUGE_VAL; }), ECH_OK) << ech_last_error();
  expect_invalid(ech_test(request, nullptr), "done");
  EXPECT_EQ(ech_wait(&request), ECH_OK);
}

TEST_F(Arguments, OfCreation) {
  auto* const untouched = reinterpret_cast<ech_comm*>(1);
  ech_comm* made = untouched;
  const auto wrong = [&](const std::function<void(ech_comm_options&)>& change, const char* what) {
    expect_invalid(create(&made, change), what);
    EXPECT_EQ(made, untouched);
  };
  ech_comm_options options = ECH_COMM_OPTIONS_INIT;
  expect_invalid(ech_comm_create(nullptr, &options), "comm");
  wrong([](auto& o) { o.struct_size = 3; }, "options.struct_size");
  wrong([](auto& o) { o.timeout = -2; }, "options.timeout");
  wrong([](auto& o) { o.timeout = std::nan(""); }, "options.timeout");
  wrong([](auto& o) { o.size = 0; }, "size");
  wrong([](auto& o) { o.rank = 1; }, "rank");
  wrong([](auto& o) { o.rank = -1; }, "rank");
  wrong([](auto& o) { o.algorithm = "sorcery"; }, "sorcery");
  wrong([](auto& o) { o.fabric_file = "no/such/file.toml"; }, "no/such/file.toml");
  wrong([](auto& o) { o.log_level = bad<ech_log_level>(77); }, "log_level");
  const auto by_bootstrap = [](auto& o) { o.unique_id = nullptr, o.bootstrap = "telepathy"; };
  wrong(by_bootstrap, "telepathy");
  ech_unique_id zeros{};
  wrong([&](auto& o) { o.unique_id = &zeros; }, "id");
  ech_unique_id id;
  expect_invalid(ech_get_unique_id(nullptr, nullptr), "id");
  expect_invalid(ech_get_unique_id(&id, "nosuch0"), "nosuch0");
  ASSERT_EQ(create(&made, [](auto& o) { o.timeout = HUGE_VAL; }), ECH_OK) << ech_last_error();
  EXPECT_EQ(ech_comm_destroy(made), ECH_OK);
  EXPECT_EQ(ech_comm_destroy(nullptr), ECH_OK);
  expect_invalid(ech_comm_abort(nullptr), "comm");
  expect_invalid(ech_comm_shrink(nullptr, &made), "failed");
  expect_invalid(ech_comm_shrink(comm, nullptr), "survivors");
  expect_invalid(ech_comm_split(nullptr, 0, 0, &made), "parent");
  expect_invalid(ech_comm_set_algorithm(nullptr, "ring"), "comm");
  expect_invalid(ech_comm_set_algorithm(comm, "rung"), "rung");
  expect_invalid(ech_comm_split(comm, 0, 0, nullptr), "comm");
}

TEST_F(Arguments, OfNumbersAndMemory) {
  int value = 5;
  for (auto get : {ech_comm_rank, ech_comm_size, ech_comm_local_rank, ech_comm_local_size,
                   ech_comm_host_index, ech_comm_host_count}) {
    expect_invalid(get(nullptr, &value), "comm");
    expect_invalid(get(comm, nullptr), "output");
    EXPECT_EQ(value, 5);
  }
  void* memory = this;
  expect_invalid(ech_alloc(nullptr, 8, ECH_MEMORY_HOST), "memory");
  expect_invalid(ech_alloc(&memory, 0, ECH_MEMORY_HOST), "bytes");
  expect_invalid(ech_alloc(&memory, 8, bad<ech_memory>(3)), "kind");
  EXPECT_EQ(ech_alloc(&memory, 8, ECH_MEMORY_CUDA), ECH_ERR_UNSUPPORTED);
  EXPECT_EQ(ech_alloc(&memory, SIZE_MAX, ECH_MEMORY_HOST), ECH_ERR_NO_MEMORY) << ech_last_error();
  EXPECT_EQ(memory, this);
  EXPECT_EQ(ech_free(nullptr), ECH_OK);
  expect_invalid(ech_free(&value), "shared allocation");
}

using Text = std::unique_ptr<char, decltype(&ech_text_free)>;

TEST_F(Arguments, OfQuestions) {
  char* text = nullptr;
  const auto ask = [&](const std::function<void(ech_question&)>& change) {
    ech_question question = ECH_QUESTION_INIT;
    question.count = 100;
    change(question);
    return ech_comm_explain(comm, &question, ECH_JSON, &text);
  };
  expect_invalid(ask([](auto& q) { q.struct_size = 4; }), "question.struct_size");
  expect_invalid(ask([](auto& q) { q.collective = bad<ech_collective>(6); }), "collective");
  expect_invalid(ask([](auto& q) { q.dtype = bad<ech_dtype>(10); }), "dtype");
  expect_invalid(ask([](auto& q) { q.op = bad<ech_op>(5); }), "op");
  expect_invalid(ask([](auto& q) { q.memory = bad<ech_memory>(3); }), "memory");
  expect_invalid(ask([](auto& q) { q.count = SIZE_MAX, q.dtype = ECH_FLOAT64; }), "count");
  const std::size_t most = PTRDIFF_MAX / 8;
  expect_invalid(ask([&](auto& q) { q.count = most + 1, q.dtype = ECH_FLOAT64; }), "count");
  ech_question question = ECH_QUESTION_INIT;
  expect_invalid(ech_comm_explain(nullptr, &question, ECH_TEXT, &text), "comm");
  expect_invalid(ech_comm_explain(comm, nullptr, ECH_TEXT, &text), "question");
  expect_invalid(ech_comm_explain(comm, &question, ECH_TOML, &text), "format");
  expect_invalid(ech_comm_explain(comm, &question, ECH_TEXT, nullptr), "text");
  expect_invalid(ech_comm_fabric(nullptr, ECH_TEXT, &text), "comm");
  expect_invalid(ech_comm_fabric(comm, bad<ech_format>(3), &text), "format");
  expect_invalid(ech_comm_fabric(comm, ECH_TEXT, nullptr), "text");
  EXPECT_EQ(text, nullptr);
  ech_text_free(nullptr);
}

using Explained = std::pair<double, std::string>;  // bytes and collective

Explained explain(ech_comm* comm, const ech_question& question) {
  char* raw = nullptr;
  EXPECT_EQ(ech_comm_explain(comm, &question, ECH_JSON, &raw), ECH_OK) << ech_last_error();
  const Text text(raw, ech_text_free);
  const auto json = nlohmann::json::parse(raw != nullptr ? raw : "{}", nullptr, false);
  return {json.value("bytes", 0.0), json.value("collective", "")};
}

TEST_F(Arguments, QuestionsOfAnyAgeAndSize) {
  ech_question question = ECH_QUESTION_INIT;
  question.collective = ECH_REDUCE_SCATTER;
  question.dtype = ECH_FLOAT64;
  question.count = PTRDIFF_MAX / 8;
  EXPECT_EQ(explain(comm, question),
            Explained(static_cast<double>(PTRDIFF_MAX / 8 * 8), "reduce_scatter"));
  question.count = 10;
  question.struct_size = offsetof(ech_question, dtype);  // an older program: int8, and no count
  EXPECT_EQ(explain(comm, question), Explained(1, "reduce_scatter"));
}

// What a newer program hands in: today's struct and a field more.
template <typename T>
struct Newer {
  explicit Newer(const T& today) : known(today) { known.struct_size = sizeof *this; }
  T known;
  double unknown = 0;
};

// Zero is the default, whatever it is of; anything else asks for what is not there.
TEST_F(Arguments, FieldsOfANewerProgram) {
  const auto expect_unknown = [](ech_status status, const std::string& what) {
    EXPECT_EQ(status, ECH_ERR_UNSUPPORTED) << what;
    const std::string message = ech_last_error();
    EXPECT_NE(message.find(what + " sets a field"), message.npos) << message;
  };
  ech_request* request = nullptr;
  Newer<ech_call> call(ECH_CALL_INIT);
  const auto start = [&] {
    return ech_iallreduce(a, b, 8, ECH_FLOAT32, ECH_SUM, comm, &call.known, &request);
  };
  ASSERT_EQ(start(), ECH_OK) << ech_last_error();
  EXPECT_EQ(ech_wait(&request), ECH_OK);
  call.unknown = 1;
  expect_unknown(start(), "call");
  EXPECT_EQ(request, nullptr);

  char* text = nullptr;
  Newer<ech_question> question(ECH_QUESTION_INIT);
  ASSERT_EQ(ech_comm_explain(comm, &question.known, ECH_TEXT, &text), ECH_OK) << ech_last_error();
  ech_text_free(text);
  question.unknown = 1;
  expect_unknown(ech_comm_explain(comm, &question.known, ECH_TEXT, &text), "question");

  ech_comm* made = nullptr;
  ech_unique_id id;
  ASSERT_EQ(ech_get_unique_id(&id, "lo"), ECH_OK) << ech_last_error();
  Newer<ech_comm_options> options(ECH_COMM_OPTIONS_INIT);
  options.known.unique_id = &id;
  options.known.size = 1;
  options.unknown = -0.5;
  expect_unknown(ech_comm_create(&made, &options.known), "options");
  EXPECT_EQ(made, nullptr);
  options.unknown = 0;
  ASSERT_EQ(ech_comm_create(&made, &options.known), ECH_OK) << ech_last_error();
  EXPECT_EQ(ech_comm_destroy(made), ECH_OK);
}

TEST_F(Arguments, FabricsAndExplanationsAreWellFormed) {
  for (ech_format format : {ECH_TEXT, ECH_JSON, ECH_TOML}) {
    char* raw = nullptr;
    ASSERT_EQ(ech_comm_fabric(comm, format, &raw), ECH_OK) << ech_last_error();
    const Text text(raw, ech_text_free);
    EXPECT_GT(std::string(raw).size(), 10u);
    if (format != ECH_JSON) continue;
    const auto json = nlohmann::json::parse(raw, nullptr, false);
    ASSERT_TRUE(json.is_object()) << raw;
    ASSERT_TRUE(json.contains("host")) << raw;
    EXPECT_EQ(json["host"].size(), 1u);
  }
  for (int c = ECH_ALLREDUCE; c <= ECH_BARRIER; ++c) {
    ech_question question = ECH_QUESTION_INIT;
    question.collective = bad<ech_collective>(c);
    question.count = 1000;
    char* raw = nullptr;
    ASSERT_EQ(ech_comm_explain(comm, &question, ECH_JSON, &raw), ECH_OK) << ech_last_error();
    const Text text(raw, ech_text_free);
    const auto json = nlohmann::json::parse(raw, nullptr, false);
    ASSERT_TRUE(json.is_object()) << raw;
    for (const char* key : {"collective", "bytes", "bound_us", "bound_reason", "reason"})
      EXPECT_TRUE(json.contains(key)) << key << " in " << raw;
  }
}

TEST_F(Arguments, CountersCount) {
  ech_counters before{}, after{};
  expect_invalid(ech_comm_counters(nullptr, &before), "comm");
  expect_invalid(ech_comm_counters(comm, nullptr), "counters");
  expect_invalid(ech_comm_counters(comm, &before), "counters.struct_size");
  before.struct_size = after.struct_size = sizeof before;
  ASSERT_EQ(ech_comm_counters(comm, &before), ECH_OK);
  for (int i = 0; i < 3; ++i) ech_allreduce(a, b, 8, ECH_FLOAT32, ECH_SUM, comm);
  ASSERT_EQ(ech_comm_counters(comm, &after), ECH_OK);
  EXPECT_EQ(after.operations - before.operations, 3u);
  EXPECT_EQ(after.bytes - before.bytes, 3 * sizeof a);
  EXPECT_EQ(after.plans - before.plans, 1u);
  EXPECT_EQ(after.network_bytes, 0u);
  // An older program's struct ends after `operations`; nothing behind it is written.
  ech_counters old{};
  old.struct_size = offsetof(ech_counters, bytes);
  old.bytes = 77;
  ASSERT_EQ(ech_comm_counters(comm, &old), ECH_OK);
  EXPECT_EQ(old.operations, after.operations);
  EXPECT_EQ(old.bytes, 77u);
}

TEST_F(Arguments, StatsOfOneRankAreUnknown) {
  ech_stats stats = ECH_STATS_INIT;
  expect_invalid(ech_comm_stats(nullptr, &stats), "comm");
  expect_invalid(ech_comm_stats(comm, nullptr), "stats");
  double lateness = 7;
  stats.latenesses = &lateness;
  for (int i = 0; i < 2000; ++i) ech_allreduce(a, b, 8, ECH_FLOAT32, ECH_SUM, comm);
  ASSERT_EQ(ech_comm_stats(comm, &stats), ECH_OK);
  EXPECT_EQ(stats.periods, 0u);
  EXPECT_EQ(stats.slowest_rank, -1);
  EXPECT_EQ(lateness, 0);
  stats.struct_size = 0;
  expect_invalid(ech_comm_stats(comm, &stats), "stats.struct_size");
  // An older program's struct; nothing behind it is written.
  stats.struct_size = offsetof(ech_stats, lateness);
  stats.lateness = 77;
  ASSERT_EQ(ech_comm_stats(comm, &stats), ECH_OK);
  EXPECT_EQ(stats.lateness, 77);
}

}  // namespace
}  // namespace echelon::test
