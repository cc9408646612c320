// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <new>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/dtype.h"
#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/pages.h"

namespace echelon {
namespace {

TEST(Bytes, RoundTrip) {
  const std::string bytes =
      ByteWriter().u8(7).u32(1u << 31).u64(~0ull).f64(-0.5).text("abc").take();
  ByteReader reader(bytes, "sample");
  EXPECT_EQ(reader.u8(), 7);
  EXPECT_EQ(reader.u32(), 1u << 31);
  EXPECT_EQ(reader.u64(), ~0ull);
  EXPECT_EQ(reader.f64(), -0.5);
  EXPECT_FALSE(reader.at_end());
  EXPECT_EQ(reader.text(), "abc");
  EXPECT_NO_THROW(reader.expect_end());
}

TEST(Bytes, EveryTruncationIsAnErrorThatNamesTheSource) {
  const std::string bytes = ByteWriter().u64(1).text("hello").take();
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    ByteReader reader(std::string_view(bytes).substr(0, n), "sample");
    try {
      reader.u64();
      reader.text();
      FAIL() << n;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_INVALID);
      EXPECT_NE(std::string(e.what()).find("sample"), std::string::npos);
    }
  }
}

std::string problem_with(const std::string& path, std::size_t most = kMostFileBytes) {
  try {
    read_file(path, most);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(File, IsReadWhole) {
  const std::string path = testing::TempDir() + "/echelon-file-" + std::to_string(getpid());
  const std::string text = std::string(100'000, 'x') + std::string("\0\n", 2);
  for (const std::string& wanted : {std::string(), text}) {
    std::ofstream(path, std::ios::binary) << wanted;
    EXPECT_EQ(read_file(path), wanted);
  }
  EXPECT_EQ(problem_with(path, text.size()), "");
  EXPECT_NE(problem_with(path, text.size() - 1).find("more than 100001 bytes"), std::string::npos);
  std::remove(path.c_str());
}

TEST(File, WhatIsNoneIsAnErrorThatNamesIt) {
  for (const char* path : {"/nonexistent/file", "/", "/dev/zero"})
    EXPECT_NE(problem_with(path).find(path), std::string::npos) << problem_with(path);
}

TEST(Dtype, NamesParseBack) {
  for (ech_dtype t : kAllTypes) EXPECT_EQ(parse_dtype(name(t)), t);
  for (ech_op op : kAllOps) EXPECT_EQ(parse_op(name(op)), op);
  for (ech_collective c : kAllCollectives) EXPECT_EQ(parse_collective(name(c)), c);
  EXPECT_EQ(parse_dtype("float"), ECH_FLOAT32);
  EXPECT_FALSE(parse_dtype("f128"));
}

// Pages that are present, of all that hold `pages`.
std::size_t present(const Pages& pages) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> states((pages.size() + page - 1) / page);
  EXPECT_EQ(mincore(pages.data(), pages.size(), states.data()), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(states, [](unsigned char state) { return (state & 1) != 0; }));
}

TEST(Pages, AreZeroAndTakeRoomOnlyWhereTheyAreTouched) {
  const Pages pages(100'000);
  EXPECT_EQ(pages.size(), 100'000u);
  EXPECT_EQ(present(pages), 0u);
  pages.data()[50'000] = std::byte{1};
  EXPECT_GE(present(pages), 1u);
  EXPECT_LT(present(pages), 20u);  // the kernel may give several at once
  EXPECT_EQ(pages.data()[99'999], std::byte{0});
}

TEST(Pages, ThatCannotBeAreAnError) { EXPECT_THROW(Pages(SIZE_MAX / 2), std::bad_alloc); }

}  // namespace
}  // namespace echelon
