// SPDX-License-Identifier: Apache-2.0
#include "lib/base/bytes.h"

#include <bit>

#include "lib/base/error.h"

namespace echelon {
namespace {

template <typename T>
void append(std::string& bytes, T v) {
  for (unsigned i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(v >> (8 * i) & 0xff));
}

template <typename T>
T decode(std::string_view bytes) {
  T v = 0;
  for (unsigned i = 0; i < sizeof(T); ++i)
    v |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return v;
}

}  // namespace

ByteWriter& ByteWriter::u8(std::uint8_t v) {
  bytes_.push_back(static_cast<char>(v));
  return *this;
}

ByteWriter& ByteWriter::u32(std::uint32_t v) {
  append(bytes_, v);
  return *this;
}

ByteWriter& ByteWriter::u64(std::uint64_t v) {
  append(bytes_, v);
  return *this;
}

ByteWriter& ByteWriter::f64(double v) { return u64(std::bit_cast<std::uint64_t>(v)); }

ByteWriter& ByteWriter::text(std::string_view v) {
  u32(static_cast<std::uint32_t>(v.size()));
  bytes_.append(v);
  return *this;
}

std::string_view ByteReader::take(std::size_t n) {
  if (bytes_.size() < n) throw invalid(std::string(what_) + " is cut short");
  const std::string_view head = bytes_.substr(0, n);
  bytes_.remove_prefix(n);
  return head;
}

std::uint8_t ByteReader::u8() { return static_cast<std::uint8_t>(take(1)[0]); }
std::uint32_t ByteReader::u32() { return decode<std::uint32_t>(take(4)); }
std::uint64_t ByteReader::u64() { return decode<std::uint64_t>(take(8)); }
double ByteReader::f64() { return std::bit_cast<double>(u64()); }
std::string ByteReader::text() { return std::string(take(u32())); }

void ByteReader::expect_end() const {
  if (!bytes_.empty()) throw invalid(std::string(what_) + " has bytes left over");
}

}  // namespace echelon
