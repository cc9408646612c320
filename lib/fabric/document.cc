// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/error.h"
#include "lib/base/join.h"

namespace echelon {

Document Document::of(bool value) {
  Document out;
  out.type = Type::kFlag;
  out.flag = value;
  return out;
}

Document Document::of(double value) {
  Document out;
  out.type = Type::kNumber;
  out.number = value;
  return out;
}

Document Document::of(std::string value) {
  Document out;
  out.type = Type::kText;
  out.text = std::move(value);
  return out;
}

Document Document::list() {
  Document out;
  out.type = Type::kList;
  return out;
}

void Document::add(std::string key, Document value) {
  keys.push_back(std::move(key));
  items.push_back(std::move(value));
}

void Document::add(Document value) { items.push_back(std::move(value)); }

const Document* Document::find(std::string_view key) const {
  const auto at = std::find(keys.begin(), keys.end(), key);
  return at == keys.end() ? nullptr : &items[static_cast<std::size_t>(at - keys.begin())];
}

std::string_view name(Document::Type type) {
  constexpr std::string_view kNames[] = {"true or false", "a number", "a text", "a list",
                                         "a table"};
  return kNames[static_cast<int>(type)];
}

TableReader::TableReader(const Document& table, std::string file, std::string path)
    : table_(table), file_(std::move(file)), path_(std::move(path)) {}

std::string TableReader::where(std::string_view key) const {
  const Document* value = table_.find(key);
  const int line = value != nullptr && value->line > 0 ? value->line : table_.line;
  const std::string place = line > 0 ? fmt::format("{}:{}", file_, line) : file_;
  return fmt::format("{}: {}{}{}", place, path_, path_.empty() ? "" : ".", key);
}

void TableReader::fail(std::string_view key, std::string_view found,
                       std::string_view expected) const {
  throw invalid(fmt::format("{}: {}; expected {}", where(key), found, expected));
}

const Document* TableReader::take(std::string_view key, Document::Type type) {
  asked_.emplace_back(key);
  const Document* value = table_.find(key);
  if (value != nullptr && value->type != type) fail(key, name(value->type), name(type));
  return value;
}

std::optional<std::string> TableReader::text(std::string_view key) {
  const Document* value = take(key, Document::Type::kText);
  return value != nullptr ? std::optional(value->text) : std::nullopt;
}

std::optional<bool> TableReader::flag(std::string_view key) {
  const Document* value = take(key, Document::Type::kFlag);
  return value != nullptr ? std::optional(value->flag) : std::nullopt;
}

std::optional<double> TableReader::integer(std::string_view key, double least, double most) {
  const Document* value = take(key, Document::Type::kNumber);
  if (value == nullptr) return {};
  const double n = value->number;
  if (!(n >= least && n <= most) || n != std::floor(n))
    fail(key, fmt::format("{}", n), fmt::format("a whole number from {} to {}", least, most));
  return n;
}

std::vector<std::string> TableReader::texts(std::string_view key) {
  const Document* value = table_.find(key);
  if (value != nullptr && value->type == Document::Type::kText) return {*text(key)};
  value = take(key, Document::Type::kList);
  std::vector<std::string> out;
  if (value == nullptr) return out;
  for (const Document& item : value->items) {
    if (item.type != Document::Type::kText) fail(key, name(item.type), "a list of texts");
    out.push_back(item.text);
  }
  return out;
}

void TableReader::one(std::string_view key, const std::function<void(TableReader&)>& visit) {
  const Document* value = take(key, Document::Type::kTable);
  if (value == nullptr) return;
  TableReader reader(*value, file_,
                     path_.empty() ? std::string(key) : path_ + "." + std::string(key));
  visit(reader);
  reader.finish();
}

void TableReader::each(std::string_view key, const std::function<void(TableReader&)>& visit) {
  const Document* value = take(key, Document::Type::kList);
  if (value == nullptr) return;
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  for (const Document& item : value->items) {
    if (item.type != Document::Type::kTable) fail(key, name(item.type), "a list of tables");
    TableReader reader(item, file_, path);
    visit(reader);
    reader.finish();
  }
}

void TableReader::each_entry(std::string_view key,
                             const std::function<void(const std::string&, TableReader&)>& visit) {
  const Document* value = take(key, Document::Type::kTable);
  if (value == nullptr) return;
  for (std::size_t i = 0; i < value->keys.size(); ++i) {
    const std::string path = fmt::format("{}.{}", key, value->keys[i]);
    if (value->items[i].type != Document::Type::kTable)
      fail(key, fmt::format("{} is {}", value->keys[i], name(value->items[i].type)), "a table");
    TableReader reader(value->items[i], file_, path);
    visit(value->keys[i], reader);
    reader.finish();
  }
}

void TableReader::finish() const {
  for (const std::string& key : table_.keys)
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end())
      fail(key, "unknown key", fmt::format("one of {}", joined(asked_, ", ")));
}

}  // namespace echelon
