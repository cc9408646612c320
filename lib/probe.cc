// SPDX-License-Identifier: Apache-2.0
#include "lib/probe.h"

#include <sched.h>

#include <algorithm>
#include <optional>

#include "lib/base/pages.h"
#include "lib/base/time.h"
#include "lib/introduction.h"

namespace echelon {
namespace {

constexpr int kRounds = 21;
constexpr std::size_t kPiece = 512 << 10;  // as large as a segment's messages
constexpr int kPieces = 6;
constexpr std::size_t kGroupBytes = 4 << 20;

double seconds_since(Clock::time_point start) { return to_seconds(Clock::now() - start); }

// What both kinds of probe wait with. On the way out by an exception the medium is cancelled while
// the memory that it may write is still there.
class Waiting {
 public:
  Waiting(Control& control, Deadline deadline) : control_(control), deadline_(deadline) {}

  // The ranks of a busy machine share cores, so give way.
  template <typename Medium, typename Done>
  void until(Medium& medium, Done done) {
    try {
      while (!done())
        if (!medium.progress()) idle();
    } catch (...) {
      medium.abort();
      medium.progress();
      throw;
    }
  }

 private:
  void idle() {
    sched_yield();
    if (++idle_polls_ % kIdlePollsPerCheck != 0) return;
    control_.check();
    if (Clock::now() > deadline_) throw Error(ECH_ERR_TIMEOUT, "measuring the links took too long");
  }

  static constexpr unsigned kIdlePollsPerCheck = 256;
  Control& control_;
  const Deadline deadline_;
  unsigned idle_polls_ = 0;
};

void require_ok(const Completion& completion) {
  if (completion.status != ECH_OK)
    throw Error(completion.status, "a link failed while it was measured");
}

// Disturbances only ever add time, so the quickest of several tries is what the link can do.
double quickest(const std::vector<double>& tries) { return std::ranges::min(tries); }

// With a clock that may have shown no difference at all.
double speed(double bytes, double seconds) { return bytes / std::max(seconds, 1e-6); }

// Half a round trip, then a stream of pieces, between `self` and `peer`.
class PairProbe {
 public:
  PairProbe(Transport& transport, int self, int peer, Waiting& waiting)
      : transport_(transport), first_(self < peer), peer_(peer), waiting_(waiting) {}

  MeasuredLink run() {
    std::vector<double> trips;
    for (int i = 0; i < kRounds; ++i) trips.push_back(round_trip());
    const double latency = quickest(trips) / 2;
    return {latency, speed(kPiece * kPieces, quickest({stream(), stream()}) - latency)};
  }

 private:
  double round_trip() {
    const auto start = Clock::now();
    std::byte data[8]{};
    if (first_) send(data);
    receive(data);
    if (!first_) send(data);
    return seconds_since(start);
  }

  // One way, several in flight; the answer tells that the last one has arrived.
  double stream() {
    std::vector<std::byte> data(kPiece);
    const auto start = Clock::now();
    std::vector<Completion> all(kPieces);
    for (Completion& c : all) {
      if (first_) {
        transport_.send(peer_, tag_++, data, c);
      } else {
        transport_.receive(peer_, tag_++, data, c);
      }
    }
    waiting_.until(transport_, [&] { return std::ranges::all_of(all, &Completion::done); });
    std::ranges::for_each(all, require_ok);
    std::byte answer[8]{};
    if (first_) {
      receive(answer);
    } else {
      send(answer);
    }
    return seconds_since(start);
  }

  void send(std::span<const std::byte> data) {
    Completion c;
    transport_.send(peer_, tag_++, data, c);
    waiting_.until(transport_, [&] { return c.done; });
    require_ok(c);
  }
  void receive(std::span<std::byte> data) {
    Completion c;
    transport_.receive(peer_, tag_++, data, c);
    waiting_.until(transport_, [&] { return c.done; });
    require_ok(c);
  }

  Transport& transport_;
  const bool first_;
  const int peer_;
  Waiting& waiting_;
  Tag tag_ = 0;
};

// One allreduce on lane 0.
double allreduce_time(GroupEngine& group, const Pages& data, std::size_t bytes, Waiting& waiting) {
  const GroupPart part{0, 0, bytes, 0};
  const GroupWork work{
      GroupAction::kAllreduce, ECH_UINT8, ECH_MAX, data.data(), data.data(), {&part, 1}};
  const auto start = Clock::now();
  group.start(0, work);
  waiting.until(group, [&] { return group.done(0); });
  if (group.failed() != ECH_OK) throw Error(group.failed(), "shared memory failed when measured");
  return seconds_since(start);
}

MeasuredLink group_link(GroupEngine& group, int members, Waiting& waiting) {
  const Pages data(kGroupBytes);
  std::fill_n(data.data(), data.size(), std::byte{});  // so that no time is that of new pages
  std::vector<double> small, large;
  for (int i = 0; i < kRounds; ++i) small.push_back(allreduce_time(group, data, 8, waiting));
  for (int i = 0; i < 3; ++i) large.push_back(allreduce_time(group, data, kGroupBytes, waiting));
  const double latency = quickest(small);
  const double moved = 2.0 * (members - 1) / members * kGroupBytes;
  return {latency, speed(moved, quickest(large) - latency)};
}

// The slowest of what the ranks report: both ends of the pair, or all ranks of all hosts.
std::optional<TierNumbers> slowest(TierKind tier, const std::vector<std::string>& reports) {
  std::optional<MeasuredLink> worst;
  for (const std::string& report : reports) {
    if (report.empty()) continue;
    const MeasuredLink link = measured_link_from_wire(report);
    if (!worst) worst = link;
    worst->latency = std::max(worst->latency, link.latency);
    worst->bytes_per_second = std::min(worst->bytes_per_second, link.bytes_per_second);
  }
  if (!worst) return std::nullopt;
  return TierNumbers{tier,
                     std::nullopt,
                     {worst->bytes_per_second, Source::kMeasured},
                     {worst->latency, Source::kMeasured}};
}

// What this rank can say of a tier, as the others read it; "" when nothing.
std::string measure(const Tier& tier, EngineParts& media, int self, Waiting& waiting) {
  if (tier.kind == TierKind::kHost) {
    if (media.group == nullptr) return {};
    return to_wire(group_link(*media.group, media.group_ranks.size(), waiting));
  }
  if (media.transport == nullptr) return {};
  // A tier always has a group of several children, for it does not repeat the one below.
  const TierGroup& group =
      *std::ranges::find_if(tier.groups, [](const TierGroup& g) { return g.children.size() > 1; });
  const int a = group.children[0][0], b = group.children[1][0];
  if (self != a && self != b) return {};
  return to_wire(PairProbe(*media.transport, self, self == a ? b : a, waiting).run());
}

}  // namespace

std::vector<TierNumbers> probe_links(const Layout& layout, EngineParts& media, Control& control,
                                     Deadline deadline) {
  std::vector<TierNumbers> measured;
  Waiting waiting(control, deadline);
  for (const Tier& tier : layout.tiers) {
    if (tier.kind == TierKind::kSocket) continue;
    const std::string report = measure(tier, media, control.rank(), waiting);
    const auto numbers = slowest(tier.kind, control.allgather(report, deadline));
    if (numbers) measured.push_back(*numbers);
  }
  return measured;
}

}  // namespace echelon
