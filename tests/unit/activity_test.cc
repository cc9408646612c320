// SPDX-License-Identifier: Apache-2.0
#include "lib/base/activity.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "lib/base/error.h"

namespace echelon {
namespace {

Signature signature(std::uint64_t count) {
  Signature s;
  s.collective = ECH_REDUCE;
  s.dtype = ECH_FLOAT64;
  s.op = ECH_MAX;
  s.root = 3;
  s.count = count;
  return s;
}

TEST(Activity, IsReadBack) {
  Activity activity;
  EXPECT_EQ(activity.read().text(), "outside any call, it has made none");
  activity.begin(0, signature(5));
  activity.end(0);
  activity.begin(1, signature(6), 9);
  activity.advance(1, 3);
  const Snapshot s = activity.read();
  EXPECT_EQ(s.entered, 2u);
  ASSERT_EQ(s.calls.size(), 2u);
  EXPECT_EQ(s.calls[0].signature, signature(5));
  EXPECT_FALSE(s.calls[0].running);
  EXPECT_EQ(s.calls[1].signature, signature(6));
  EXPECT_EQ(s.text(), "in reduce #1, segment 4 of 9");
  activity.end(1);
  EXPECT_EQ(activity.read().text(), "outside any call, last in reduce #1");
}

TEST(Activity, KeepsTheLastCalls) {
  Activity activity;
  for (std::uint64_t k = 0; k < 1000; ++k) activity.begin(k, signature(k));
  const Snapshot s = activity.read();
  EXPECT_EQ(s.entered, 1000u);
  ASSERT_EQ(s.calls.size(), 64u);
  EXPECT_EQ(s.oldest_running()->sequence, 936u);
  EXPECT_EQ(s.find(999)->signature.count, 999u);
  EXPECT_EQ(s.find(935), nullptr);
}

// As many calls later its place is another's.
TEST(Activity, ProgressOfACallThatIsForgottenIsNobodyElses) {
  Activity activity;
  activity.begin(2, signature(1), 7);
  for (std::uint64_t k = 3; k <= 66; ++k) activity.begin(k, signature(k), 9);
  activity.plan(2, 3);
  activity.advance(2, 5);
  activity.end(2);
  const Snapshot s = activity.read();
  ASSERT_NE(s.find(66), nullptr);
  EXPECT_EQ(s.find(66)->ended, 0u);
  EXPECT_EQ(s.find(66)->segments, 9u);
  EXPECT_TRUE(s.find(66)->running);
}

TEST(Activity, SegmentsMayBeKnownLater) {
  Activity activity;
  activity.begin(2, signature(1));
  activity.plan(2, 7);
  activity.advance(2, 4);
  const Snapshot s = activity.read();
  ASSERT_NE(s.find(2), nullptr);
  EXPECT_EQ(s.find(2)->segments, 7u);
  EXPECT_EQ(s.find(2)->ended, 4u);
}

TEST(Activity, IsNeverReadHalfWritten) {
  Activity activity;
  std::atomic<bool> over = false;
  std::thread reader([&] {
    while (!over)
      for (const EnteredCall& call : activity.read().calls)
        ASSERT_EQ(call.signature, signature(call.sequence));
  });
  for (std::uint64_t k = 0; k < 200'000; ++k) {
    activity.begin(k, signature(k));
    activity.end(k);
  }
  over = true;
  reader.join();
}

TEST(Activity, OnGivenMemoryOutlivesItsWriter) {
  alignas(64) std::byte board[Activity::kBytes]{};
  Activity(board).begin(7, signature(1));
  EXPECT_EQ(Activity::read(board).text(), "in reduce #7");
}

TEST(Snapshot, SurvivesTheWire) {
  Activity activity;
  activity.begin(3, signature(11), 4);
  activity.advance(3, 2);
  const std::string bytes = encode_snapshot(activity.read());
  const Snapshot s = decode_snapshot(bytes);
  EXPECT_EQ(s.entered, 4u);
  EXPECT_EQ(s.text(), "in reduce #3, segment 3 of 4");
  EXPECT_EQ(s.find(3)->signature, signature(11));
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_THROW(decode_snapshot(std::string_view(bytes).substr(0, n)), Error);
}

TEST(Snapshot, OfTwoThatShareTheirNumbersAreOne) {
  Activity host, device;
  for (std::uint64_t k = 0; k < 200; k += 2) {
    host.begin(k, signature(k));
    if (k != 150) host.end(k);
    device.begin(k + 1, signature(k + 1));
    device.end(k + 1);
  }
  const Snapshot s = merged(host.read(), device.read());
  EXPECT_EQ(s.entered, 200u);
  EXPECT_EQ(s.oldest_running()->sequence, 150u);
  EXPECT_EQ(s.calls.size(), 64u) << "as many as one holds, for the wire";
  EXPECT_EQ(s.find(199)->signature, signature(199));
  EXPECT_EQ(decode_snapshot(encode_snapshot(s)).text(), "in reduce #150");
}

TEST(Snapshot, CallsThatThereCannotBeAreRefused) {
  const auto error_of = [](const Snapshot& snapshot) -> std::string {
    try {
      decode_snapshot(encode_snapshot(snapshot));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const EnteredCall good{5, signature(1), true, 1, 0};
  EXPECT_EQ(error_of({6, {good}}), "");
  EXPECT_NE(error_of({6, {good, good}}), "") << "twice the same number";
  for (const auto number : {&Signature::collective, &Signature::dtype, &Signature::op}) {
    EnteredCall bad = good;
    bad.signature.*number = 200;
    EXPECT_NE(error_of({6, {bad}}), "") << "would be looked up in a table";
  }
  EnteredCall bad = good;
  bad.signature.kind = Signature::kStatistics;
  EXPECT_EQ(error_of({6, {bad}}), "");
  EXPECT_EQ(bad.signature.label(7), "exchange of statistics #7");
  bad.signature.kind = static_cast<Signature::Kind>(Signature::kPlan + 1);
  EXPECT_NE(error_of({6, {bad}}), "");
}

TEST(Signature, FingerprintsDiffer) {
  std::set<std::uint16_t> seen;
  for (std::uint64_t count = 0; count < 1000; ++count) seen.insert(signature(count).fingerprint());
  EXPECT_GT(seen.size(), 950u);
  Signature other = signature(1);
  other.op = ECH_MIN;
  EXPECT_NE(other.fingerprint(), signature(1).fingerprint());
  EXPECT_EQ(signature(1).fingerprint(), signature(1).fingerprint());
}

Signature many(std::uint64_t count, std::uint16_t buffers, std::uint16_t digest) {
  Signature s = signature(count);
  s.kind = Signature::kMany;
  s.collective = ECH_ALLREDUCE;
  s.root = 0;
  s.buffers = buffers;
  s.digest = digest;
  return s;
}

TEST(Signature, OfManyBuffersIsReadBack) {
  const Signature sent = many(5, 65535, 0xfedc);
  Activity activity;
  activity.begin(0, sent);
  EXPECT_EQ(activity.read().calls[0].signature, sent);
  EXPECT_EQ(activity.read().text(), "in allreduce_many #0");
  const Snapshot decoded = decode_snapshot(encode_snapshot(activity.read()));
  EXPECT_EQ(decoded.calls[0].signature, sent);
  EXPECT_NE(sent.fingerprint(), many(5, 65534, 0xfedc).fingerprint());
  EXPECT_NE(sent.fingerprint(), many(5, 65535, 0xfedd).fingerprint());
}

TEST(Signature, DifferencesOfManyBuffersAreNamed) {
  EXPECT_EQ(difference(many(5, 2, 1), many(6, 3, 2)), "count 5 and 2 buffers");
  EXPECT_EQ(difference(many(5, 2, 0x1a), many(5, 2, 2)), "counts and factors 001a");
}

TEST(Signature, DifferencesAreNamed) {
  Signature other = signature(9);
  other.root = 4;
  EXPECT_EQ(difference(signature(5), other), "count 5 and root 3");
  EXPECT_EQ(difference(other, signature(5)), "count 9 and root 4");
  other = signature(5);
  other.cuda = true;
  EXPECT_EQ(difference(other, signature(5)), "CUDA memory");
  EXPECT_EQ(difference(signature(5), other), "host memory");
  EXPECT_NE(other.fingerprint(), signature(5).fingerprint());
}

}  // namespace
}  // namespace echelon
