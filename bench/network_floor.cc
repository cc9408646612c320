// SPDX-License-Identifier: Apache-2.0
// The floor of an allreduce of f32 between hosts over TCP, by halving and doubling, in time and in
// processor time of all ranks, for 2, 4, 8 ... hosts. Rank 0 prints a line per size. Who waits
// sleeps at once, and is woken once for what it awaits.
//   bare: one rank of each host exchanges the messages over plain sockets, and does nothing else.
//   whole: the others of each host bring what they have through shared memory, in one piece, and
//     take the result; the first adds up. All results are what they have to be.
//   UCX: the same, with Echelon's transport in place of the sockets. "-" in a build without it.
//
//   echelon run --emulate 4x2:1gbit -- build/bench/network_floor [bytes, such as 64KiB]...
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/network_host.h"
#include "bench/network_links.h"
#include "echelon/echelon.hpp"
#include "lib/fabric/quantity.h"
#include "lib/reduce/reduce.h"
#include "transports/ucx/ucx.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMeasured = 1;         // s. The other ranks wait meanwhile, and say so after 2 s
constexpr int kFirst = 5;               // operations, to find out how many fit
constexpr std::size_t kLongest = 4096;  // address of a transport
constexpr std::chrono::milliseconds kSleep{100};

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// With the host whose number differs in one bit: sends these, receives as many.
using Exchange = std::function<void(int bit, std::span<const std::byte> out, std::byte* in)>;

// Echelon's transport between the first ranks of hosts.
class Messages {
 public:
  explicit Messages(ech::Communicator& comm) : self_(comm.host_index()) {
    UcxConfig config;
    config.peers = comm.host_count() - 1;
    const std::unique_ptr<Medium> medium = comm.local_rank() == 0 ? open_ucx(config) : nullptr;
    const std::vector<std::string> addresses = gather(comm, medium ? medium->address() : "");
    if (medium) transport_ = medium->connect(self_, addresses);
  }

  void exchange(int bit, std::span<const std::byte> out, std::byte* in) {
    const int peer = self_ ^ 1 << bit;
    Completion received, sent;
    ++tag_;
    transport_->receive(peer, tag_, {in, out.size()}, received);
    transport_->send(peer, tag_, out, sent);
    while (!received.done || !sent.done)
      if (!transport_->progress()) sleep();
    if (received.status != ECH_OK || sent.status != ECH_OK)
      throw std::runtime_error(
          fmt::format("a message between hosts {} and {} failed", self_, peer));
  }

  // Before this rank waits for anything else: what is left here the other host may still await.
  void let_all_leave() {
    while (transport_ && !transport_->all_left()) transport_->progress();
  }

 private:
  void sleep() {
    if (!transport_->arm()) return;
    transport_->sleep(kSleep);
    transport_->disarm();
  }

  // Of the first rank of each host.
  static std::vector<std::string> gather(ech::Communicator& comm, const std::string& mine) {
    struct Entry {
      int host = 0, bytes = 0;
      char text[kLongest];
    };
    if (mine.size() > kLongest) throw std::runtime_error("the address of a transport is too long");
    Entry entry{comm.host_index(), static_cast<int>(mine.size()), {}};
    std::memcpy(entry.text, mine.data(), mine.size());
    std::vector<Entry> all(comm.size());
    comm.allgather(reinterpret_cast<const std::uint8_t*>(&entry),
                   reinterpret_cast<std::uint8_t*>(all.data()), sizeof entry);
    std::vector<std::string> addresses(comm.host_count());
    for (const Entry& one : all)
      if (one.bytes > 0) addresses[one.host].assign(one.text, one.bytes);
    return addresses;
  }

  const int self_;
  Tag tag_ = 0;
  std::unique_ptr<Transport> transport_;
};

// Where the messages of halving and doubling lie: half of what was there is sent, and half kept.
void bare(const Exchange& exchange, int bits, std::span<std::byte> buffer) {
  const auto half = [&](int bit) { return buffer.first(buffer.size() >> (bit + 1)); };
  std::byte* const in = buffer.data() + buffer.size() / 2;
  for (int bit = 0; bit < bits; ++bit) exchange(bit, half(bit), in);
  for (int bit = bits; bit-- > 0;) exchange(bit, half(bit), in);
}

// A rank's part of the whole operation.
class Whole {
 public:
  Whole(ech::Communicator& comm, std::size_t bytes)
      : host_(comm.host_index()),
        bits_(std::bit_width(static_cast<unsigned>(comm.host_count())) - 1),
        slots_(comm, bytes),
        input_(bytes / sizeof(float), 1.F + static_cast<float>(comm.rank())),
        output_(input_.size()),
        received_(input_.size() / 2) {}

  void operator()(const Exchange& exchange) {
    ++round_;
    if (!slots_.leads()) return follow();
    collect();
    halve(exchange);
    for (int bit = bits_; bit-- > 0;) {
      const Half half = half_of(bit);
      exchange(bit, bytes(half.kept, half.elements), data(half.sent));
    }
    if (slots_.ranks() == 1) return;
    std::memcpy(slots_.result(), output_.data(), output_.size() * sizeof(float));
    slots_.reduced().raise(round_);
  }

  bool is_right(const ech::Communicator& comm) const {
    const float ranks = static_cast<float>(comm.size());
    return std::ranges::all_of(output_, [&](float x) { return x == ranks * (ranks + 1) / 2; });
  }

 private:
  struct Half {
    std::size_t kept, sent, elements;
  };

  void follow() {
    const std::size_t bytes = input_.size() * sizeof(float);
    std::memcpy(slots_.slot(slots_.self()), input_.data(), bytes);
    slots_.staged(slots_.self()).raise(round_);
    slots_.reduced().wait_for(round_);
    std::memcpy(output_.data(), slots_.result(), bytes);
  }

  void collect() {
    const float* sum = input_.data();
    for (int rank = 1; rank < slots_.ranks(); ++rank) {
      slots_.staged(rank).wait_for(round_);
      add(sum, reinterpret_cast<const float*>(slots_.slot(rank)), 0, output_.size());
      sum = output_.data();
    }
    if (slots_.ranks() == 1) output_ = input_;
  }

  void halve(const Exchange& exchange) {
    for (int bit = 0; bit < bits_; ++bit) {
      const Half half = half_of(bit);
      exchange(bit, bytes(half.sent, half.elements),
               reinterpret_cast<std::byte*>(received_.data()));
      add(&output_[half.kept], received_.data(), half.kept, half.elements);
    }
  }

  void add(const float* a, const float* b, std::size_t at, std::size_t elements) {
    const auto* const other = reinterpret_cast<const std::byte*>(b);
    reduce(ECH_FLOAT32, ECH_SUM, reinterpret_cast<const std::byte*>(a), other, data(at), elements);
  }

  // Of what is left after so many halvings.
  Half half_of(int bit) const {
    std::size_t begin = 0, elements = output_.size();
    for (int i = 0; i < bit; ++i) {
      elements /= 2;
      if (host_ >> i & 1) begin += elements;
    }
    const std::size_t upper = begin + elements / 2;
    const bool keeps_upper = (host_ >> bit & 1) != 0;
    return {keeps_upper ? upper : begin, keeps_upper ? begin : upper, elements / 2};
  }

  std::byte* data(std::size_t at) { return reinterpret_cast<std::byte*>(&output_[at]); }
  std::span<const std::byte> bytes(std::size_t at, std::size_t elements) {
    return {data(at), elements * sizeof(float)};
  }

  const int host_, bits_;
  SharedSlots slots_;
  std::uint32_t round_ = 0;
  std::vector<float> input_, output_, received_;
};

// Of one operation: the longest of all ranks, and the sum.
struct Cost {
  double seconds = 0, processor = 0;
};

// What is done over and over, and what is done when it has been, not in its time.
struct Measured {
  std::function<void()> operation, after = [] {};
};

Cost repeat(const Measured& measured, int times) {
  const double before = processor_seconds();
  const auto begin = Clock::now();
  for (int i = 0; i < times; ++i) measured.operation();
  const std::chrono::duration<double> took = Clock::now() - begin;
  const Cost cost{took.count() / times, (processor_seconds() - before) / times};
  measured.after();
  return cost;
}

Cost measure(ech::Communicator& comm, const Measured& measured) {
  comm.barrier();
  double seconds = repeat(measured, kFirst).seconds;
  comm.allreduce(&seconds, &seconds, 1, ECH_MAX);
  comm.barrier();
  Cost cost = repeat(measured, 1 + static_cast<int>(kMeasured / seconds));
  comm.allreduce(&cost.seconds, &cost.seconds, 1, ECH_MAX);
  comm.allreduce(&cost.processor, &cost.processor, 1);
  return cost;
}

Cost measure_whole(
    ech::Communicator& comm, const Exchange& exchange, std::size_t bytes,
    const std::function<void()>& after = [] {}) {
  Whole whole(comm, bytes);
  const Cost cost = measure(comm, {[&] { whole(exchange); }, after});
  if (!whole.is_right(comm)) throw std::runtime_error("a wrong sum");
  return cost;
}

std::string text(const std::optional<Cost>& cost) {
  if (!cost) return fmt::format("{:>12} {:>12}", "-", "-");
  return fmt::format("{:12.1f} {:12.1f}", cost->seconds * 1e6, cost->processor * 1e6);
}

std::vector<std::size_t> sizes_of(std::span<char* const> arguments, int hosts) {
  std::vector<std::size_t> sizes;
  for (const char* argument : arguments) {
    const auto size = parse_size(argument);
    const std::size_t unit = hosts * sizeof(float);
    if (!size || *size == 0 || *size % unit != 0)
      throw std::runtime_error(
          fmt::format("\"{}\" is no multiple of {} B, such as 64KiB", argument, unit));
    sizes.push_back(*size);
  }
  if (sizes.empty()) sizes = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
  return sizes;
}

void run(std::span<char* const> arguments) {
  ech::Communicator comm;
  const std::vector<std::size_t> sizes = sizes_of(arguments, comm.host_count());
  Links links(comm);
  std::optional<Messages> messages;
  if (ucx_available()) messages.emplace(comm);
  const Exchange sockets = [&](int bit, auto out, auto in) { links.exchange(bit, out, in); };
  const Exchange ucx = [&](int bit, auto out, auto in) { messages->exchange(bit, out, in); };
  if (comm.rank() == 0)
    fmt::print("{:>8} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "size", "bare, us", "processor",
               "whole, us", "processor", "UCX, us", "processor");
  for (const std::size_t size : sizes) {
    std::vector<std::byte> buffer(size);
    const Cost least = measure(comm, {[&] { bare(sockets, links.bits(), buffer); }});
    const Cost whole = measure_whole(comm, sockets, size);
    std::optional<Cost> over_ucx;
    if (messages) over_ucx = measure_whole(comm, ucx, size, [&] { messages->let_all_leave(); });
    if (comm.rank() == 0)
      fmt::print("{:>8} {} {} {}\n", format_size(size), text(least), text(whole), text(over_ucx));
  }
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  try {
    echelon::run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "network_floor: {}\n", e.what());
    return 1;
  }
}
