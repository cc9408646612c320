// SPDX-License-Identifier: Apache-2.0
// What launcher and agent read from each other. The first byte says in which pieces it comes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/base/error.h"
#include "tools/run_bind.h"
#include "tools/run_protocol.h"

namespace {

using namespace echelon;
using namespace echelon::run;

// As the agent uses it.
void bind_all(const Job& job) {
  static const std::vector<Core> cores = {{0, {0, 2}}, {0, {1, 3}}, {1, {4, 6}}, {1, {5, 7}}};
  for (std::size_t i = 0; i < job.ranks.size(); ++i)
    for (const int cpu :
         cpus_of_slot(cores, job.bind, static_cast<int>(i), static_cast<int>(job.ranks.size())))
      if (cpu < 0 || cpu > 7) std::abort();
}

template <typename Value>
void expect_same(const Value& value, std::string_view bytes) {
  if (encode(value) != bytes) std::abort();
}

void decode(const Message& message) {
  switch (message.kind) {
    case Frame::kCheck:
      return expect_same(decode_check_request(message.body), message.body);
    case Frame::kChecked:
      return expect_same(decode_check_reply(message.body), message.body);
    case Frame::kStart: {
      const Job job = decode_job(message.body);
      expect_same(job, message.body);
      return bind_all(job);
    }
    default:
      return;
  }
}

void decode_or_refuse(const Message& message) {
  try {
    decode(message);
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0];
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  MessageReader reader;
  try {
    while (!rest.empty()) {
      reader.feed(rest.substr(0, piece));
      rest.remove_prefix(std::min(rest.size(), piece));
      while (const auto message = reader.next()) decode_or_refuse(*message);
    }
  } catch (const Error& e) {
    if (e.code() != ECH_ERR_INVALID) std::abort();
  }
  return 0;
}
