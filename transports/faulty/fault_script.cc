// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <sstream>
#include <string>

#include "transports/faulty/faulty.h"

namespace echelon {
namespace {

std::optional<FaultKind> parse_kind(const std::string& word) {
  if (word == "delay") return FaultKind::kDelay;
  if (word == "drop") return FaultKind::kDrop;
  if (word == "cut") return FaultKind::kCut;
  if (word == "fail") return FaultKind::kFail;
  return std::nullopt;
}

// The number that the word begins with; `rest` is what follows it.
std::optional<std::uint32_t> parse_number(const std::string& word, std::string* rest = nullptr) {
  std::uint32_t value = 0;
  const char* end = word.data() + word.size();
  const auto [next, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || (rest == nullptr && next != end)) return std::nullopt;
  if (rest != nullptr) rest->assign(next, end);
  return value;
}

std::optional<std::chrono::microseconds> parse_time(const std::string& word) {
  std::string unit;
  const auto value = parse_number(word, &unit);
  if (!value) return std::nullopt;
  if (unit == "us") return std::chrono::microseconds(*value);
  if (unit == "ms") return std::chrono::milliseconds(*value);
  if (unit == "s") return std::chrono::seconds(*value);
  return std::nullopt;
}

bool parse_peer(std::istringstream& words, Fault& fault) {
  std::string rank;
  words >> rank;
  const auto number = parse_number(rank);
  if (!number || *number > 0xFFFF) return false;
  fault.peer = static_cast<int>(*number);
  return true;
}

bool parse_after(std::istringstream& words, Fault& fault) {
  std::string count;
  std::string unit;
  words >> count >> unit;
  const auto number = parse_number(count);
  if (!number) return false;
  if (unit == "messages") fault.after_messages = *number;
  if (unit == "bytes") fault.after_bytes = *number;
  return unit == "messages" || unit == "bytes";
}

bool parse_statement(std::istringstream& words, Fault& fault) {
  std::string word;
  words >> word;
  const auto kind = parse_kind(word);
  if (!kind) return false;
  fault.kind = *kind;
  if (fault.kind == FaultKind::kDelay) {
    words >> word;
    const auto delay = parse_time(word);
    if (!delay) return false;
    fault.delay = *delay;
  }
  while (words >> word) {
    const bool understood = word == "peer"    ? parse_peer(words, fault)
                            : word == "after" ? parse_after(words, fault)
                                              : false;
    if (!understood) return false;
  }
  return true;
}

}  // namespace

FaultScript parse_faults(std::string_view text) {
  FaultScript script;
  std::istringstream statements{std::string(text)};
  std::string statement;
  while (std::getline(statements, statement, ';')) {
    if (statement.find_first_not_of(" \t\n") == std::string::npos) continue;
    std::istringstream words(statement);
    Fault fault;
    if (!parse_statement(words, fault)) {
      throw invalid(
          fmt::format("fault '{}': expected KIND [TIME] [peer RANK] [after COUNT "
                      "messages|bytes], with KIND delay, drop, cut or fail",
                      statement));
    }
    script.push_back(fault);
  }
  return script;
}

}  // namespace echelon
