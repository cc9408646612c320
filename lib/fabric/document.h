// SPDX-License-Identifier: Apache-2.0
// What TOML and JSON have in common: a tree of tables, lists and values that remembers its lines,
// and a reader that checks it against what is expected. Knows neither format nor fabric.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echelon {

struct Document {
  enum class Type { kFlag, kNumber, kText, kList, kTable };

  Type type = Type::kTable;
  bool flag = false;
  double number = 0;
  std::string text;
  std::vector<Document> items;    // of lists and tables
  std::vector<std::string> keys;  // of tables: the name of each item
  int line = 0;                   // 0: unknown

  static Document of(bool value);
  static Document of(double value);
  static Document of(std::string value);
  static Document list();
  static Document table() { return {}; }

  void add(std::string key, Document value);  // to a table
  void add(Document value);                   // to a list
  const Document* find(std::string_view key) const;
};

std::string_view name(Document::Type type);  // "a table", ...

// Reads one table. Every error is ECH_ERR_INVALID, "file:line: path.key: what was found; expected
// what". finish() refuses keys that nobody asked for.
class TableReader {
 public:
  TableReader(const Document& table, std::string file, std::string path);

  bool has(std::string_view key) const { return table_.find(key) != nullptr; }
  int line() const { return table_.line; }

  std::optional<std::string> text(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<double> integer(std::string_view key, double least, double most);
  std::vector<std::string> texts(std::string_view key);  // a text or a list of texts

  // A text that `parse` understands; `expected` says which those are.
  template <typename Parse>
  auto parsed(std::string_view key, std::string_view expected, Parse parse)
      -> decltype(parse(std::string_view())) {
    const std::optional<std::string> found = text(key);
    if (!found) return {};
    auto value = parse(std::string_view(*found));
    if (!value) fail(key, "\"" + *found + "\"", expected);
    return value;
  }

  // The table of that name, if there is one.
  void one(std::string_view key, const std::function<void(TableReader&)>& visit);
  // Each table of a list of tables.
  void each(std::string_view key, const std::function<void(TableReader&)>& visit);
  // Each entry of a table of tables, with its key.
  void each_entry(std::string_view key,
                  const std::function<void(const std::string&, TableReader&)>& visit);

  void finish() const;
  [[noreturn]] void fail(std::string_view key, std::string_view found,
                         std::string_view expected) const;

 private:
  const Document* take(std::string_view key, Document::Type type);
  std::string where(std::string_view key) const;

  const Document& table_;
  const std::string file_;
  const std::string path_;
  std::vector<std::string> asked_;
};

}  // namespace echelon
