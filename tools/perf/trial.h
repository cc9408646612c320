// SPDX-License-Identifier: Apache-2.0
// One operation with its buffers: prepared, run any number of times, judged.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/perf/buffers.h"
#include "tools/perf/comm.h"
#include "tools/perf/settings.h"
#include "tools/perf/values.h"

namespace echelon::perf {

// What is wrong on this rank.
struct Verdict {
  std::uint64_t wrong = 0;  // elements of the result, bytes of guards, elements of the input
  std::string first;        // one line about the first of them
};

// The buffers of a rank, large enough for every case that will be placed in them.
struct Buffers {
  Buffers(std::size_t send_bytes, std::size_t recv_bytes, BufferKind kind)
      : send(send_bytes, kind), recv(recv_bytes, kind) {}
  GuardedBuffer send, recv;
};

// The largest of both sides over `cases`.
Buffers buffers_for(std::span<const Case> cases, int ranks, BufferKind kind);

class Trial {
 public:
  // `comm` and `buffers` must outlive it.
  Trial(const Comm& comm, Buffers& buffers, const Case& what);

  const Case& what() const { return case_; }

  // Writes the inputs and spoils the output.
  void prepare();
  // The same with inputs that make sums round; only checksum() can be asked then.
  void prepare_inexact();

  // The operation, so many times back to back. Throws Failure.
  void run(Form form = Form::kBlocking, int times = 1);
  // The same by another library, on the same buffers: allreduce on a GPU.
  void run(Peer& peer, int times);

  // Of the first run after prepare(); out of place, of any.
  Verdict judge() const;

  // Of the result; 0 where there is none, or where ranks have different ones.
  std::uint64_t result_checksum() const;

  // All ranks' judgement, collective: the number of wrong elements on all ranks together, at least
  // one when results that should be equal differ. A rank that finds something says so on stderr.
  std::uint64_t verify() const;

 private:
  void place();
  bool has_input() const;
  bool has_result() const;
  Table input_table(int rank) const;
  Table result_table() const;
  void judge_result(Verdict& verdict) const;
  void judge_input(Verdict& verdict) const;
  void note(Verdict& verdict, std::uint64_t wrong, const std::string& what) const;
  const void* send_argument() const;
  void* recv_argument() const;
  void upload();
  void fetch() const;
  std::uint64_t checksum_here() const;
  void start(ech_request** request);
  void block();
  void enqueue(void* stream);
  std::string title() const;

  // Constant after construction.
  const Comm& comm_;
  Buffers& buffers_;
  const Case case_;
  const Values values_;

  // Of the latest preparation.
  std::span<std::byte> send_, recv_;  // what this rank's arguments point to, or its copy
};

}  // namespace echelon::perf
