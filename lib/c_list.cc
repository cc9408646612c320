// SPDX-License-Identifier: Apache-2.0
#include "lib/c_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/dtype.h"
#include "lib/c_check.h"
#include "lib/guard.h"
#include "transports/cuda/pointer.h"

namespace echelon {
namespace {

// The addresses of one buffer.
struct Extent {
  std::uintptr_t begin, end;
  std::size_t index;
};

Extent extent_of(const void* buffer, const GivenList& given, std::size_t index) {
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer);
  return {begin, begin + given.counts[index] * size_of(given.dtype), index};
}

void check_factors(const GivenList& given) {
  if (given.dtype >= ECH_FLOAT16) return;
  for (const auto& [what, factor] :
       {std::pair("prescale", given.prescale), std::pair("postscale", given.postscale)})
    if (factor != 1)
      throw invalid(
          fmt::format("{} is {}, but elements of type {} cannot be scaled: only floats can", what,
                      factor, name(given.dtype)));
}

void check_counts(const GivenList& given) {
  const std::size_t most = PTRDIFF_MAX / size_of(given.dtype);
  std::size_t total = 0;
  for (std::size_t k = 0; k < given.buffers; ++k) {
    if (given.counts[k] > most - total)
      throw invalid(fmt::format("counts[{}] {} is too large", k, given.counts[k]));
    total += given.counts[k];
  }
}

// Nothing is written to what another buffer reads or writes.
void check_overlaps(const GivenList& given) {
  std::vector<Extent> written;
  written.reserve(given.buffers);
  for (std::size_t k = 0; k < given.buffers; ++k)
    if (given.counts[k] > 0) written.push_back(extent_of(given.recv[k], given, k));
  std::ranges::sort(written, {}, &Extent::begin);
  for (std::size_t i = 1; i < written.size(); ++i)
    if (written[i].begin < written[i - 1].end)
      throw invalid(
          fmt::format("recv[{}] and recv[{}] overlap", written[i - 1].index, written[i].index));
  for (std::size_t k = 0; k < given.buffers; ++k) {
    if (given.counts[k] == 0 || given.send[k] == given.recv[k]) continue;
    const Extent read = extent_of(given.send[k], given, k);
    const auto at = std::ranges::upper_bound(written, read.begin, {}, &Extent::end);
    if (at != written.end() && at->begin < read.end)
      throw invalid(fmt::format("send[{}] and recv[{}] overlap; see \"in place\" in echelon.h", k,
                                at->index));
  }
}

// All are in host memory, or all in that of the communicator's GPU.
class Places {
 public:
  explicit Places(Communicator& comm) : comm_(comm) {}

  void add(const char* side, std::size_t index, const void* buffer) {
    const auto name = [&] { return fmt::format("{}[{}]", side, index); };
    if (buffer == nullptr) throw invalid(name() + " is NULL");
    const PointerPlace place = place_of(buffer);
    if (first_name_.empty()) {
      first_ = place;
      first_name_ = name();
    }
    if (place.kind != first_.kind)
      throw invalid(fmt::format("{} is in {}, but {} in {}", first_name_, text_of(first_), name(),
                                text_of(place)));
    if (place.kind == MemoryKind::kDevice) [[unlikely]]
      check_device(name(), place, comm_);
  }
  bool on_gpu() const { return first_.kind == MemoryKind::kDevice; }

 private:
  Communicator& comm_;
  PointerPlace first_;
  std::string first_name_;
};

bool find_on_gpu(const GivenList& given) {
  Places places(*given.comm->communicator);
  for (std::size_t k = 0; k < given.buffers; ++k) {
    if (given.counts[k] == 0) continue;
    places.add("send", k, given.send[k]);
    places.add("recv", k, given.recv[k]);
  }
  return places.on_gpu();
}

}  // namespace

Invocation read_list(const GivenList& given) {
  Invocation in;
  in.dtype = given.dtype;
  in.op = given.op;
  check(in, given.comm);
  if (given.buffers > 0) {
    require(given.send != nullptr, "send is NULL");
    require(given.recv != nullptr, "recv is NULL");
    require(given.counts != nullptr, "counts is NULL");
  }
  check_factors(given);
  check_counts(given);
  in.on_gpu = find_on_gpu(given);
  check_overlaps(given);
  auto list = std::make_shared<BufferList>(
      size_of(given.dtype), BufferList::Factors{given.prescale, given.postscale}, !in.on_gpu);
  for (std::size_t k = 0; k < given.buffers; ++k)
    list->add({static_cast<const std::byte*>(given.send[k]), static_cast<std::byte*>(given.recv[k]),
               given.counts[k]});
  in.count = list->count();
  if (list->is_plain() && in.count > 0) {
    const BufferList::Part only = list->part(0, in.count);
    in.send = only.input;
    in.recv = only.output;
  }
  in.list = std::move(list);
  return in;
}

}  // namespace echelon
