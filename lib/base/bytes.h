// SPDX-License-Identifier: Apache-2.0
// Plain values to bytes and back, for what ranks exchange. Little-endian, lengths checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace echelon {

class ByteWriter {
 public:
  ByteWriter& u8(std::uint8_t v);
  ByteWriter& u32(std::uint32_t v);
  ByteWriter& u64(std::uint64_t v);
  ByteWriter& f64(double v);
  ByteWriter& text(std::string_view v);  // u32 length, then the bytes

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Every read throws ECH_ERR_INVALID, naming `what`, when the bytes do not suffice.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  double f64();
  std::string text();

  bool at_end() const { return bytes_.empty(); }
  void expect_end() const;  // throws when bytes are left

 private:
  std::string_view take(std::size_t n);

  std::string_view bytes_;
  std::string_view what_;
};

}  // namespace echelon
