// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/comm.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

namespace echelon::perf {
namespace {

using Text = std::unique_ptr<char, decltype(&ech_text_free)>;

ech_comm_options options_with(const std::string& algorithm) {
  ech_comm_options options{};
  options.struct_size = sizeof options;
  if (!algorithm.empty()) options.algorithm = algorithm.c_str();
  return options;
}

int allgather(const void* send, void* recv, size_t bytes, void* context) {
  return ech_allgather(send, recv, bytes, ECH_UINT8, static_cast<ech_comm*>(context));
}

std::optional<double> number(const nlohmann::json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number()) return {};
  return at->get<double>();
}

}  // namespace

std::string_view without_segment(std::string_view plan) { return plan.substr(0, plan.find('@')); }

Comm::Comm(const std::string& algorithm) { create(options_with(algorithm)); }

Comm::Comm(const Comm& parent, const std::string& algorithm, Device* device) : device_(device) {
  ech_comm_options options = options_with(algorithm);
  options.allgather = allgather;
  options.allgather_context = parent.get();
  options.rank = parent.rank();
  options.size = parent.size();
  create(options);
}

Comm::~Comm() {
  if (std::uncaught_exceptions() > exceptions_) ech_comm_abort(comm_);
  ech_comm_destroy(comm_);
}

void Comm::create(const ech_comm_options& options) {
  const ech_status status = ech_comm_create(&comm_, &options);
  if (status != ECH_OK)
    throw Failure(
        fmt::format("ech_comm_create: {}: {}", ech_status_name(status), ech_last_error()));
  ech_comm_rank(comm_, &rank_);
  ech_comm_size(comm_, &size_);
  ech_comm_host_count(comm_, &hosts_);
  ech_comm_local_rank(comm_, &local_rank_);
  ech_comm_host_index(comm_, &host_);
}

void Comm::require(ech_status status, const char* call) const {
  if (status == ECH_OK) return;
  throw Failure(
      fmt::format("rank {}: {}: {}: {}", rank_, call, ech_status_name(status), ech_last_error()));
}

double Comm::max(double value) const {
  max(std::span(&value, 1));
  return value;
}

double Comm::sum(double value) const {
  require(ech_allreduce(&value, &value, 1, ECH_FLOAT64, ECH_SUM, comm_), "ech_allreduce");
  return value;
}

void Comm::max(std::span<double> values) const {
  require(ech_allreduce(values.data(), values.data(), values.size(), ECH_FLOAT64, ECH_MAX, comm_),
          "ech_allreduce");
}

bool Comm::same_everywhere(std::uint64_t value) const {
  std::vector<std::uint64_t> all(size_);
  require(ech_allgather(&value, all.data(), 1, ECH_UINT64, comm_), "ech_allgather");
  for (std::uint64_t other : all)
    if (other != value) return false;
  return true;
}

void Comm::barrier() const { require(ech_barrier(comm_), "ech_barrier"); }

void Comm::set_algorithm(const std::string& plan) const {
  require(ech_comm_set_algorithm(comm_, plan.empty() ? nullptr : plan.c_str()),
          "ech_comm_set_algorithm");
}

std::string Comm::gather(const std::string& bytes) const {
  std::string all(bytes.size() * static_cast<std::size_t>(size_), '\0');
  require(ech_allgather(bytes.data(), all.data(), bytes.size(), ECH_UINT8, comm_), "ech_allgather");
  return all;
}

void Comm::agree(const std::string& fault, const std::string& elsewhere) const {
  const bool all_well = sum(fault.empty() ? 0 : 1) == 0;
  if (!all_well) throw Failure(fault.empty() ? elsewhere : fault);
}

std::string Comm::fabric(ech_format format) const {
  char* text = nullptr;
  require(ech_comm_fabric(comm_, format, &text), "ech_comm_fabric");
  return Text(text, ech_text_free).get();
}

ech_stats Comm::statistics() const {
  ech_stats stats = ECH_STATS_INIT;
  require(ech_comm_stats(comm_, &stats), "ech_comm_stats");
  return stats;
}

Plan Comm::explain(const Case& c) const {
  ech_question question = ECH_QUESTION_INIT;
  question.collective = c.collective;
  question.op = c.op;
  question.dtype = c.dtype;
  question.count = c.count;
  question.memory = device_ != nullptr ? ECH_MEMORY_CUDA : ECH_MEMORY_HOST;
  char* text = nullptr;
  require(ech_comm_explain(comm_, &question, ECH_JSON, &text), "ech_comm_explain");
  const Text owner(text, ech_text_free);
  const auto said = nlohmann::json::parse(text, nullptr, false);
  if (!said.is_object())
    throw Failure(fmt::format("rank {}: ech_comm_explain gave no JSON object", rank_));
  Plan plan;
  plan.name = said.value("plan", "");
  plan.predicted_us = number(said, "predicted_us");
  plan.bound_us = number(said, "bound_us");
  plan.reason = said.value("reason", "");
  plan.bound_reason = said.value("bound_reason", "");
  for (const auto& other : said.value("rejected", nlohmann::json::array()))
    plan.others.push_back({other.value("plan", ""), other.value("predicted_us", 0.0)});
  return plan;
}

}  // namespace echelon::perf
