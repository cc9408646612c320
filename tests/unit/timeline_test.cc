// SPDX-License-Identifier: Apache-2.0
// What a timeline keeps, and what its file says of that.
#include "lib/timeline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/bootstrap/solo_control.h"
#include "lib/timeline_file.h"
#include "tests/support/temp_folder.h"

namespace echelon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr Nanoseconds kUs = 1000;

// Two hosts of two ranks: rank 0's part of a reduce-scatter, a ring and an allgather.
Program program_of_three_phases() {
  Program program;
  program.units = 4;
  program.plan = "native/ring";
  program.phases = {{"reduce_scatter(host) by native", 0, 0, 1, "host"},
                    {"allreduce(cluster) by ring", 1, 1, 3, "cluster"}};
  Step inside, first, second;
  inside.phase = 0;
  inside.calls.push_back(
      {GroupAction::kReduceScatter, 0, 2, {{{0, 2}, 0}, {{2, 4}, 1}}, Place::kInput});
  first.phase = second.phase = 1;
  first.sends.push_back({2, {0, 1}, 0, Place::kWork});
  first.incoming.push_back({3, {1, 2}, 0, Place::kWork});
  second.sends.push_back({2, {1, 2}, 1, Place::kWork, true});
  second.receives.push_back({3, {0, 1}, 1, Place::kWork, true});
  program.steps = {inside, first, second};
  return program;
}

OperationRecord allreduce(std::uint64_t sequence, Nanoseconds called, Nanoseconds began,
                          Nanoseconds ended) {
  OperationRecord o;
  o.called = called;
  o.began = began;
  o.ended = ended;
  o.sequence = sequence;
  o.signature.collective = ECH_ALLREDUCE;
  o.signature.dtype = ECH_FLOAT32;
  o.signature.count = o.elements = 1000;
  o.element_size = 4;
  o.bytes = 4000;
  return o;
}

Clocks one_clock() { return {ClockReading{}}; }

std::vector<Json> events_of(const Timeline& timeline, const Clocks& last = {}) {
  std::vector<Json> events;
  write_events(timeline.traced(last), [&](std::string_view event) {
    EXPECT_LE(event.size(), kLongestEvent);
    events.push_back(Json::parse(event));
  });
  return events;
}

std::vector<Json> of_category(const std::vector<Json>& events, const char* category) {
  std::vector<Json> found;
  for (const Json& e : events)
    if (e.value("cat", "") == category) found.push_back(e);
  return found;
}

std::string row_of(const std::vector<Json>& events, const Json& event) {
  for (const Json& e : events)
    if (e["name"] == "thread_name" && e["tid"] == event["tid"]) return e["args"]["name"];
  return "";
}

TEST(BoundedLog, DropsWhatComesWhenItIsFull) {
  BoundedLog<int> log(3);
  EXPECT_TRUE(log.records().empty());
  for (int i = 0; i < 5; ++i) log.add(i);
  EXPECT_EQ(std::vector<int>(log.records().begin(), log.records().end()),
            (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(log.dropped(), 2u);
}

TEST(Recorder, NotesOnlyBetweenStartAndStop) {
  Recorder recorder(4, 4);
  recorder.add(allreduce(0, 1, 2, 3));
  EXPECT_TRUE(recorder.operations().empty());
  recorder.start();
  recorder.add(allreduce(1, 1, 2, 3));
  recorder.add(PhaseRecord{});
  recorder.stop();
  recorder.add(allreduce(2, 1, 2, 3));
  ASSERT_EQ(recorder.operations().size(), 1u);
  EXPECT_EQ(recorder.operations()[0].sequence, 1u);
  EXPECT_EQ(recorder.phases().size(), 1u);
  EXPECT_EQ(recorder.dropped(), 0u);
}

TEST(Timeline, SaysOfAnOperationWhatItWas) {
  const Program program = program_of_three_phases();
  Timeline timeline("t.json", 0);
  timeline.start(one_clock(), 1000 * kUs);
  OperationRecord o = allreduce(17, 1001 * kUs, 1003 * kUs, 1010 * kUs);
  o.program = &program;
  o.name = timeline.number_of("layer \"3\"\n\xff");
  o.segments = 2;
  timeline.of_host().add(o);
  const std::vector<Json> events = events_of(timeline);
  const auto operations = of_category(events, "operation");
  ASSERT_EQ(operations.size(), 1u);
  const Json& e = operations[0];
  EXPECT_EQ(e["name"], "layer \"3\"\n\xef\xbf\xbd");  // what is no UTF-8 is replaced
  EXPECT_EQ(e["ph"], "X");
  EXPECT_DOUBLE_EQ(e["ts"], 3);
  EXPECT_DOUBLE_EQ(e["dur"], 7);
  EXPECT_EQ(row_of(events, e), "operations");
  const Json args = {{"call", "allreduce #17"}, {"sequence", 17}, {"bytes", 4000},
                     {"count", 1000},           {"type", "f32"},  {"op", "sum"},
                     {"plan", "native/ring"},   {"segments", 2},  {"waited_us", 2.0},
                     {"status", "ok"}};
  EXPECT_EQ(e["args"], args);
}

TEST(Timeline, CountsTheBytesOfPhases) {
  const Program program = program_of_three_phases();
  Timeline timeline("t.json", 3);
  timeline.start({{}, {}, {}, {}}, 0);
  timeline.of_host().add(allreduce(5, kUs, kUs, 9 * kUs));
  timeline.of_host().add(PhaseRecord{kUs, 2 * kUs, &program, 5, 1000, 0, 0, 4});
  timeline.of_host().add(PhaseRecord{2 * kUs, 5 * kUs, &program, 5, 1000, 0, 1, 4});
  timeline.of_host().add(
      PhaseRecord{5 * kUs, 6 * kUs, &program, 5, 1000, 0, PhaseRecord::kDeliver, 4});
  const std::vector<Json> events = events_of(timeline);
  const auto phases = of_category(events, "phase");
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(phases[0]["name"], "reduce_scatter(host) by native");
  EXPECT_EQ(phases[0]["args"]["shared"], 4000);
  EXPECT_EQ(phases[0]["args"]["sent"], 0);
  EXPECT_EQ(row_of(events, phases[0]), "host");
  EXPECT_EQ(phases[1]["args"]["sent"], 2000);
  EXPECT_EQ(phases[1]["args"]["received"], 2000);
  EXPECT_EQ(phases[1]["args"]["peers"], "2 3");
  EXPECT_EQ(phases[1]["args"]["tier"], 1);
  EXPECT_EQ(row_of(events, phases[1]), "cluster");
  EXPECT_EQ(phases[2]["name"], "deliver");
  EXPECT_EQ(row_of(events, phases[2]), "copies");
  for (const Json& e : phases) {
    EXPECT_EQ(e["pid"], 3);
    EXPECT_EQ(e["args"]["sequence"], 5);
    EXPECT_EQ(e["args"]["bytes"], 4000);
  }
}

TEST(Timeline, GivesADirectCallItsPhase) {
  Program program = program_of_three_phases();
  program.steps.resize(1);
  Timeline timeline("t.json", 0);
  timeline.start(one_clock(), 0);
  OperationRecord o = allreduce(0, kUs, kUs, 4 * kUs);
  o.program = &program;
  o.direct = true;
  timeline.of_host().add(o);
  const auto phases = of_category(events_of(timeline), "phase");
  ASSERT_EQ(phases.size(), 1u);
  EXPECT_EQ(phases[0]["name"], "reduce_scatter(host) by native");
  EXPECT_DOUBLE_EQ(phases[0]["dur"], 3);
  EXPECT_EQ(phases[0]["args"]["shared"], 4000);
}

// Intervals on one row never overlap.
TEST(Timeline, PutsWhatOverlapsOnRowsOfItsOwn) {
  Timeline timeline("t.json", 0);
  timeline.start(one_clock(), 0);
  timeline.of_host().add(allreduce(1, 2 * kUs, 4 * kUs, 20 * kUs));
  timeline.of_host().add(allreduce(0, 1 * kUs, 2 * kUs, 30 * kUs));
  timeline.of_host().add(allreduce(2, 3 * kUs, 20 * kUs, 40 * kUs));
  const std::vector<Json> events = events_of(timeline);
  const auto operations = of_category(events, "operation");
  ASSERT_EQ(operations.size(), 3u);
  EXPECT_EQ(row_of(events, operations[0]), "operations");
  EXPECT_EQ(row_of(events, operations[1]), "operations (2)");
  EXPECT_EQ(operations[2]["tid"], operations[1]["tid"]);
  const auto queue = of_category(events, "queue");  // each while it is the first
  ASSERT_EQ(queue.size(), 3u);
  const double expected[3][3] = {{1, 1, 1}, {2, 2, 2}, {4, 16, 17}};  // ts, dur, waited
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(queue[i]["args"]["sequence"], i);
    EXPECT_DOUBLE_EQ(queue[i]["ts"], expected[i][0]);
    EXPECT_DOUBLE_EQ(queue[i]["dur"], expected[i][1]);
    EXPECT_DOUBLE_EQ(queue[i]["args"]["waited_us"], expected[i][2]);
    EXPECT_EQ(row_of(events, queue[i]), "queue");
  }
}

TEST(Timeline, ShowsWhatFailedBeforeItBegan) {
  Timeline timeline("t.json", 0);
  timeline.start(one_clock(), 0);
  OperationRecord o = allreduce(4, 5 * kUs, 0, 9 * kUs);
  o.status = ECH_ERR_PEER;
  timeline.of_host().add(o);
  const std::vector<Json> events = events_of(timeline);
  EXPECT_TRUE(of_category(events, "operation").empty());
  const auto queue = of_category(events, "queue");
  ASSERT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue[0]["name"], "allreduce #4");
  EXPECT_EQ(queue[0]["args"]["status"], "peer failed");
  EXPECT_DOUBLE_EQ(queue[0]["dur"], 4);
}

TEST(Timeline, KeepsEnginesApart) {
  Timeline timeline("t.json", 0);
  timeline.start(one_clock(), 0);
  timeline.of_gpu().add(allreduce(0, kUs, kUs, 2 * kUs));
  const std::vector<Json> events = events_of(timeline);
  EXPECT_EQ(row_of(events, of_category(events, "operation").at(0)), "gpu operations");
}

TEST(Timeline, NumbersNames) {
  Timeline timeline("t.json", 0);
  timeline.start(one_clock(), 0);
  EXPECT_EQ(timeline.number_of(""), 0u);
  EXPECT_EQ(timeline.number_of("a"), 1u);
  EXPECT_EQ(timeline.number_of("b"), 2u);
  EXPECT_EQ(timeline.number_of("a"), 1u);
  std::string letters;
  while (letters.size() < 2 * kLongestName) letters += "\xc3\xa4";  // a letter of two bytes
  timeline.number_of("x" + letters);
  const std::string& kept = timeline.traced({}).names.back();
  EXPECT_EQ(kept, "x" + letters.substr(0, kLongestName - 2));
}

// Between two readings clocks drift apart evenly.
TEST(CommonClock, InterpolatesBetweenReadings) {
  const ClockReading first{1000, 500, 3}, last{2000, 700, 9};
  const CommonClock clock(first, last, 1500);
  EXPECT_DOUBLE_EQ(clock.microseconds(1000), 0);
  EXPECT_DOUBLE_EQ(clock.microseconds(2000), 1.2);
  EXPECT_DOUBLE_EQ(clock.microseconds(1500), 0.6);
  EXPECT_EQ(clock.error(), 9);
  const CommonClock fixed(first, first, 0);
  EXPECT_DOUBLE_EQ(fixed.microseconds(4500), 5);
}

TEST(TraceHead, MakesAFileWithWhatFollows) {
  const RankAbout ranks[] = {{0, "rank 0 on \"a\"", {}, 0}, {1, "rank 1 on b", {9, -2500, 40}, 7}};
  std::string text = trace_head(ranks, 2);
  text += kBetweenEvents;
  text += R"({"name":"x"})";
  text += kTraceEnd;
  const Json file = Json::parse(text);
  const Json& about = file["otherData"];
  EXPECT_EQ(about["size"], 2);
  EXPECT_EQ(about["clocks"][1], (Json{{"rank", 1}, {"behind_us", -2.5}, {"error_us", 0.04}}));
  EXPECT_EQ(about["dropped"], Json::parse(R"([{"rank":1,"records":7}])"));
  const Json& events = file["traceEvents"];
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["name"], "process_name");
  EXPECT_EQ(events[0]["args"]["name"], "rank 0 on \"a\"");
  EXPECT_EQ(events[4]["name"], "x");
}

class Files : public testing::Test {
 protected:
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
  }
  std::string path(const char* name) const { return folder.file(name); }

  std::string agree(const std::string& wanted, bool if_possible = false) const {
    SoloControl control;
    Options options;
    options.timeline = wanted;
    options.if_possible = if_possible;
    const Log log{[](ech_log_level, const char*, void*) {}, nullptr, ECH_LOG_WARN};
    return agree_on_timeline(control, options, log, Deadline::max());
  }

  const test::TempFolder folder{"timeline"};
};

TEST_F(Files, AreThereWhenTheyAreComplete) {
  {
    TimelineFile given_up(path("t.json"));
    given_up.write("{");
    EXPECT_EQ(entries(), 1u);
  }
  EXPECT_EQ(entries(), 0u);
  TimelineFile file(path("t.json"));
  const std::string half(1 << 20, ' ');
  file.write(half);
  file.write("{}");
  EXPECT_FALSE(fs::exists(path("t.json")));
  file.commit();
  EXPECT_EQ(read_file(path("t.json")), half + "{}");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, HaveSuffixesBeforeTheirExtension) {
  EXPECT_EQ(with_suffix("dir.d/file.json", "-2"), "dir.d/file-2.json");
  EXPECT_EQ(with_suffix("file", "-2"), "file-2");
  EXPECT_EQ(with_suffix("/a/.b", "-x"), "/a/.b-x");
}

TEST_F(Files, OfSeveralCommunicatorsHaveSeveralNames) {
  EXPECT_EQ(agree(""), "");
  EXPECT_EQ(agree(path("t.json")), path("t.json"));
  EXPECT_EQ(agree(path("t.json")), path("t-2.json"));
  EXPECT_EQ(agree(path("u.json")), path("u.json"));
  EXPECT_EQ(entries(), 0u);
}

TEST_F(Files, AreNotSpoiledByAnotherCommunicator) {
  TimelineFile file(path("t.json"));
  file.write("whole");
  EXPECT_NE(agree(path("t.json")), "");
  file.commit();
  EXPECT_EQ(read_file(path("t.json")), "whole");
}

TEST_F(Files, ThatCannotBeWrittenAreAnError) {
  for (const std::string& bad : {path("no/t.json"), folder.path().string()}) {
    try {
      agree(bad);
      ADD_FAILURE() << bad << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ECH_ERR_INVALID);
      EXPECT_NE(std::string(e.what()).find(bad + ": "), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("ECHELON_TIMELINE"), std::string::npos) << e.what();
    }
    EXPECT_EQ(agree(bad, true), "") << "of a communicator that comes of another";
  }
}

}  // namespace
}  // namespace echelon
