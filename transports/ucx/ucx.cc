// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx.h"

#include <fmt/format.h>

#include "transports/ucx/ucx_transport.h"

namespace echelon {
namespace {

constexpr std::size_t kMaxRanks = std::size_t{1} << UcxTransport::kRankBits;

class UcxMedium : public Medium {
 public:
  explicit UcxMedium(const UcxConfig& config)
      : worker_(std::make_unique<UcxWorker>(config)), local_(config.local) {}

  std::string address() const override { return worker_->address(); }
  bool reaches_gpus() const override { return worker_ && worker_->reaches_gpus(); }

  std::unique_ptr<Transport> connect(int self, std::span<const std::string> addresses) override {
    if (!worker_) throw invalid("ucx: this medium is connected already");
    if (addresses.size() > kMaxRanks) {
      throw invalid(fmt::format("ucx: {} ranks, at most {}", addresses.size(), kMaxRanks));
    }
    if (self < 0 || static_cast<std::size_t>(self) >= addresses.size()) {
      throw invalid(fmt::format("ucx: rank {} of {} addresses", self, addresses.size()));
    }
    return std::make_unique<UcxTransport>(std::move(worker_), std::move(local_), self, addresses);
  }

 private:
  std::unique_ptr<UcxWorker> worker_;
  std::function<bool(int)> local_;
};

}  // namespace

bool ucx_available() { return true; }

std::unique_ptr<Medium> open_ucx(const UcxConfig& config) {
  return std::make_unique<UcxMedium>(config);
}

}  // namespace echelon
