// SPDX-License-Identifier: Apache-2.0
// JSON to a Document and back. The only file of the fabric that includes nlohmann/json.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"

namespace echelon {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kDeepest = 16;

int line_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  return 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
}

Document convert(const Json& json, std::string_view file) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return Document::of(json.get<bool>());
    case Json::value_t::string:
      return Document::of(json.get<std::string>());
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
      return Document::of(json.get<double>());
    case Json::value_t::array: {
      Document list = Document::list();
      for (const Json& item : json) list.add(convert(item, file));
      return list;
    }
    case Json::value_t::object: {
      Document table = Document::table();
      for (const auto& [key, item] : json.items()) table.add(key, convert(item, file));
      return table;
    }
    default:
      throw invalid(fmt::format("{}: null; expected a text, number, list or table", file));
  }
}

Json to_json_value(const Document& d) {
  switch (d.type) {
    case Document::Type::kFlag:
      return d.flag;
    case Document::Type::kNumber:
      return d.number == static_cast<double>(static_cast<std::int64_t>(d.number))
                 ? Json(static_cast<std::int64_t>(d.number))
                 : Json(d.number);
    case Document::Type::kText:
      return d.text;
    case Document::Type::kList: {
      Json out = Json::array();
      for (const Document& item : d.items) out.push_back(to_json_value(item));
      return out;
    }
    case Document::Type::kTable:
      break;
  }
  Json out = Json::object();
  for (std::size_t i = 0; i < d.keys.size(); ++i) out[d.keys[i]] = to_json_value(d.items[i]);
  return out;
}

}  // namespace

Document parse_json(std::string_view text, std::string_view file) {
  // The parser keeps its own stack, but what follows recurses: refuse depth while parsing.
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) throw invalid(fmt::format("{}: nested too deep", file));
    return true;
  };
  try {
    return convert(Json::parse(text, shallow), file);
  } catch (const Json::parse_error& e) {
    throw invalid(
        fmt::format("{}:{}: not valid json at byte {}", file, line_of(text, e.byte), e.byte));
  } catch (const Json::exception& e) {
    throw invalid(fmt::format("{}: {}", file, e.what()));
  }
}

std::string write_json(const Document& document, bool compact) {
  constexpr auto kReplace = Json::error_handler_t::replace;
  return to_json_value(document).dump(compact ? -1 : 2, ' ', false, kReplace);
}

}  // namespace echelon
