// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/host_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "lib/fabric/quantity.h"
#include "transports/shm/shared_alloc.h"

namespace echelon::tune {
namespace {

using Clock = std::chrono::steady_clock;

GroupAction action_of(Kind kind) {
  switch (kind) {
    case Kind::kAllreduce:
      return GroupAction::kAllreduce;
    case Kind::kReduceScatter:
      return GroupAction::kReduceScatter;
    case Kind::kAllgather:
    case Kind::kBroadcast:
      break;
  }
  return GroupAction::kAllgather;
}

// In whole elements; what does not divide is left out.
std::vector<GroupPart> parts_of(Kind kind, std::size_t bytes, int members) {
  const bool parted = kind == Kind::kReduceScatter || kind == Kind::kAllgather;
  const int owners = parted ? members : 1;
  const std::size_t part = bytes / owners / sizeof(float) * sizeof(float);
  std::vector<GroupPart> parts;
  for (int owner = 0; owner < owners; ++owner)
    parts.push_back({owner * part, owner * part, part, owner});
  return parts;
}

}  // namespace

HostCalls::HostCalls(std::size_t largest, bool shared)
    : input_(zeros(largest, shared)), output_(zeros(largest, shared)) {}

HostCalls::Memory HostCalls::zeros(std::size_t bytes, bool shared) {
  Memory memory(shared ? shared_alloc(bytes) : std::calloc(bytes, 1),
                shared ? shared_free : std::free);
  if (!memory) throw perf::Failure(fmt::format("tune: no {} of memory", format_size(bytes)));
  std::fill_n(static_cast<std::byte*>(memory.get()), bytes, std::byte{0});
  return memory;
}

double HostCalls::sample(HostGroup& group, Kind kind, std::size_t bytes, int calls) const {
  const std::vector<GroupPart> parts = parts_of(kind, bytes, group.size());
  GroupWork work;
  work.action = action_of(kind);
  work.dtype = ECH_FLOAT32;
  work.input = static_cast<const std::byte*>(input_.get());
  work.output = static_cast<std::byte*>(output_.get());
  work.parts = parts;
  group.call({});
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) group.call(work);
  return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
}

}  // namespace echelon::tune
