// SPDX-License-Identifier: Apache-2.0
// A communicator of the ranks that are left of another.
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/time.h"
#include "lib/bootstrap/reunion.h"
#include "lib/bootstrap/solo_control.h"
#include "lib/communicator.h"
#include "lib/create.h"
#include "lib/timeline_file.h"

namespace echelon {
std::string Communicator::name_of_seat(int seat) const {
  const auto at = std::ranges::find(seats_, seat);
  if (at == seats_.end()) return fmt::format("a rank that was left out before (seat {})", seat);
  return rank_names_[at - seats_.begin()];
}

std::unique_ptr<Communicator> Communicator::shrink() {
  if (shrunk_) throw invalid("the communicator was shrunk before: shrink the one that came of it");
  shrinking_ = true;
  control_->fail({ECH_ERR_ABORTED, rank_names_[rank_] + " shrinks the communicator"});
  engine_.interrupt();
  engine_.progress();  // ends what is pending
  if (gpu_) gpu_->end_all();
  if (!standby_) return go_on({std::make_unique<SoloControl>()});
  ReunionOptions options;
  options.times = {from_seconds(options_.heartbeat), from_seconds(options_.timeout)};
  options.deadline = deadline() + 2 * options.times.silent;
  options.describe = [this](int seat) { return name_of_seat(seat); };
  try {
    Reunited reunited = reunite(*standby_, options);
    auto survivors = go_on({std::move(reunited.control), standby_, std::move(reunited.seats)});
    shrunk_ = true;
    return survivors;
  } catch (const Error&) {
    standby_->answer();  // the caller may try again
    throw;
  }
}

std::unique_ptr<Communicator> Communicator::go_on(Membership survivors) const {
  const int size = survivors.control->size();
  Options options = options_;
  options.if_possible = true;
  if (timeline_) options.timeline = with_suffix(timeline_->path(), "-shrunk");
  std::optional<DeviceScope> same_gpu;
  if (gpu_) same_gpu.emplace(gpu_->device());
  try {
    return create_communicator(std::move(survivors), options, log_, deadline());
  } catch (const Error& e) {
    // Another one had the new communicator already, and gave it up: they all come again.
    const ech_status status = e.code() == ECH_ERR_ABORTED ? ECH_ERR_PEER : e.code();
    throw Error(status, fmt::format("among the {} ranks that go on: {}", size, e.what()));
  }
}

}  // namespace echelon
