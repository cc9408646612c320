// SPDX-License-Identifier: Apache-2.0
// TOML to a Document and back. The only file that includes toml++.
#include <fmt/format.h>
#include <toml++/toml.h>

#include "lib/base/error.h"
#include "lib/fabric/formats.h"

namespace echelon {
namespace {

constexpr int kDeepest = 16;

class Converter {
 public:
  explicit Converter(std::string_view file) : file_(file) {}

  Document convert(const toml::node& node, int depth) const {
    if (depth > kDeepest) fail(node, "nested too deep");
    Document out = value(node, depth);
    out.line = static_cast<int>(node.source().begin.line);
    return out;
  }

 private:
  Document value(const toml::node& node, int depth) const {
    if (const auto* table = node.as_table()) return table_of(*table, depth);
    if (const auto* array = node.as_array()) {
      Document list = Document::list();
      for (const toml::node& item : *array) list.add(convert(item, depth + 1));
      return list;
    }
    if (const auto* text = node.as_string()) return Document::of(text->get());
    if (const auto* flag = node.as_boolean()) return Document::of(flag->get());
    if (const auto* integer = node.as_integer())
      return Document::of(static_cast<double>(integer->get()));
    if (const auto* number = node.as_floating_point()) return Document::of(number->get());
    fail(node, "a date or time; expected a text, number, list or table");
  }

  Document table_of(const toml::table& table, int depth) const {
    Document out = Document::table();
    for (const auto& [key, item] : table) out.add(std::string(key.str()), convert(item, depth + 1));
    return out;
  }

  [[noreturn]] void fail(const toml::node& node, std::string_view what) const {
    throw invalid(fmt::format("{}:{}: {}", file_, node.source().begin.line, what));
  }

  const std::string_view file_;
};

// A TOML basic string: the same escapes as JSON's, and DEL.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

bool is_tables(const Document& d) {
  return d.type == Document::Type::kList && !d.items.empty() &&
         d.items[0].type == Document::Type::kTable;
}

std::string inline_value(const Document& d) {
  switch (d.type) {
    case Document::Type::kFlag:
      return d.flag ? "true" : "false";
    case Document::Type::kNumber:
      return fmt::format("{}", d.number);
    case Document::Type::kText:
      return quoted(d.text);
    case Document::Type::kTable:
      return "{}";  // tables have a header of their own; this is an empty list's neighbour
    case Document::Type::kList:
      break;
  }
  std::string out;
  for (const Document& item : d.items) out += (out.empty() ? "" : ", ") + inline_value(item);
  return "[" + out + "]";
}

// First the values of a table, then its tables under their headers.
void write_table(std::string& out, const Document& table, const std::string& path) {
  for (std::size_t i = 0; i < table.keys.size(); ++i) {
    const Document& item = table.items[i];
    if (item.type == Document::Type::kTable || is_tables(item)) continue;
    out += fmt::format("{} = {}\n", table.keys[i], inline_value(item));
  }
  for (std::size_t i = 0; i < table.keys.size(); ++i) {
    const Document& item = table.items[i];
    const std::string name = path.empty() ? table.keys[i] : path + "." + table.keys[i];
    if (item.type == Document::Type::kTable) {
      out += fmt::format("\n[{}]\n", name);
      write_table(out, item, name);
    }
    if (!is_tables(item)) continue;
    for (const Document& one : item.items) {
      out += fmt::format("\n[[{}]]\n", name);
      write_table(out, one, name);
    }
  }
}

}  // namespace

Document parse_toml(std::string_view text, std::string_view file) {
  try {
    const toml::table table = toml::parse(text);
    return Converter(file).convert(table, 0);
  } catch (const toml::parse_error& e) {
    throw invalid(
        fmt::format("{}:{}: {}", file, e.source().begin.line, std::string(e.description())));
  }
}

std::string write_toml(const Document& document) {
  std::string out;
  write_table(out, document, "");
  return out;
}

}  // namespace echelon
