// SPDX-License-Identifier: Apache-2.0
// Settings from the environment: what is read, and what is said of values that make no sense.
#include "lib/options.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "lib/base/error.h"

namespace echelon {
namespace {

using Environment = std::map<std::string, std::string>;

Options read(const Environment& environment) {
  return read_options([&](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  });
}

TEST(Options, DefaultsAreThoseOfTheStruct) {
  const Options defaults, none = read({});
  EXPECT_EQ(none.timeout, defaults.timeout);
  EXPECT_EQ(none.bootstrap, "auto");
  EXPECT_EQ(none.log_level, ECH_LOG_WARN);
  EXPECT_FALSE(none.probe);
  EXPECT_EQ(read({{"ECHELON_TIMEOUT", ""}}).timeout, defaults.timeout) << "empty is not set";
}

TEST(Options, EveryVariableIsRead) {
  const Options o = read({{"ECHELON_ALGORITHM", "native/ring@1MiB"},
                          {"ECHELON_BOOTSTRAP", "pmix"},
                          {"ECHELON_FABRIC", "cluster.toml"},
                          {"ECHELON_INTERFACE", "eth7"},
                          {"ECHELON_LOG", "debug"},
                          {"ECHELON_MACHINE", "node7"},
                          {"ECHELON_NICS", "mlx5_0,mlx5_1"},
                          {"ECHELON_PROBE", "1"},
                          {"ECHELON_SINGLE_COPY", "off"},
                          {"ECHELON_SPIN", "5e-6"},
                          {"ECHELON_TIMEOUT", "1.5"},
                          {"ECHELON_UCX_TLS", "tcp"}});
  EXPECT_EQ(o.algorithm, "native/ring@1MiB");
  EXPECT_EQ(o.bootstrap, "pmix");
  EXPECT_EQ(o.fabric_file, "cluster.toml");
  EXPECT_EQ(o.machine, "node7");
  EXPECT_EQ(o.interface_name, "eth7");
  EXPECT_EQ(o.log_level, ECH_LOG_DEBUG);
  EXPECT_EQ(o.nics, "mlx5_0,mlx5_1");
  EXPECT_TRUE(o.probe);
  EXPECT_EQ(o.single_copy, "off");
  EXPECT_EQ(o.spin, 5e-6);
  EXPECT_EQ(o.timeout, 1.5);
  EXPECT_EQ(o.ucx_tls, "tcp");
}

// Who sends more than another receives at once would overrun it.
TEST(Options, WhatUcxReceivesIsAgreedOn) {
  const std::string none = settings_to_agree_on(read({}));
  EXPECT_EQ(settings_to_agree_on(read({{"UCX_TCP_TX_SEG_SIZE", "8k"}})), none);
  for (const char* variable : {"UCX_TCP_RX_SEG_SIZE", "UCX_RX_SEG_SIZE"}) {
    const std::string some = settings_to_agree_on(read({{variable, "64k"}}));
    EXPECT_NE(some, none);
    EXPECT_NE(some.find("UCX_TCP_RX_SEG_SIZE \"64k\""), some.npos) << some;
  }
}

TEST(Options, LongTimesFitTheClock) {
  EXPECT_EQ(read({{"ECHELON_TIMEOUT", "1e300"}}).timeout, 1e9);
  EXPECT_EQ(read({{"ECHELON_SPIN", "1e18"}}).spin, 1e9);
}

struct Bad {
  const char* variable;
  const char* value;
  const char* expected;
};

class BadOptions : public testing::TestWithParam<Bad> {};

TEST_P(BadOptions, NameTheVariableTheValueAndWhatWasExpected) {
  const Bad bad = GetParam();
  try {
    read({{bad.variable, bad.value}});
    ADD_FAILURE() << bad.variable << "=" << bad.value << " was accepted";
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_EQ(e.code(), ECH_ERR_INVALID);
    for (const char* part : {bad.variable, bad.value, bad.expected})
      EXPECT_NE(message.find(part), message.npos) << message;
    EXPECT_EQ(message.find('\n'), message.npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOptions,
    testing::Values(
        Bad{"ECHELON_TIMEOUT", "0", "> 0"}, Bad{"ECHELON_TIMEOUT", "-1", "> 0"},
        Bad{"ECHELON_SPIN", "-1", ">= 0"}, Bad{"ECHELON_TIMEOUT", "soon", "seconds"},
        Bad{"ECHELON_TIMEOUT", "5s", "seconds"}, Bad{"ECHELON_TIMEOUT", "inf", "seconds"},
        Bad{"ECHELON_TIMEOUT", "nan", "seconds"}, Bad{"ECHELON_TIMEOUT", " 5", "seconds"},
        Bad{"ECHELON_SPIN", "-1e-6", "seconds"}, Bad{"ECHELON_SPIN", "1e999", "seconds"},
        Bad{"ECHELON_PROBE", "2", "0 or 1"}, Bad{"ECHELON_PROBE", "maybe", "0 or 1"},
        Bad{"ECHELON_PROBE", "yes", "0 or 1"}, Bad{"ECHELON_ALGORITHM", "foo", "is no algorithm"},
        Bad{"ECHELON_ALGORITHM", "ring@x", "segment size"},
        Bad{"ECHELON_LOG", "loud", "error, warn, info, debug"},
        Bad{"ECHELON_LOG", "3", "error, warn, info, debug"},
        Bad{"ECHELON_BOOTSTRAP", "mpi", "auto, env, pmix"},
        Bad{"ECHELON_SINGLE_COPY", "1", "auto, on, off"}));

TEST(UnknownVariables, AreNamedWithTheNearest) {
  const char* const environment[] = {
      "ECHELON_ALGORITM=ring", "ECHELON_NIC=eth0", "ECHELON_ALGO",
      "ECHELON_MY_OWN=1",      "ECHELON_RANK=0",   "ECHELON_SECRET=s",
      "ECHELON_PROBE=1",       "PATH=/bin",        nullptr};
  std::map<std::string, std::string> found;
  for (const UnknownVariable& variable : unknown_variables(environment))
    found[variable.name] = variable.nearest;
  EXPECT_EQ(found, (std::map<std::string, std::string>{{"ECHELON_ALGORITM", "ECHELON_ALGORITHM"},
                                                       {"ECHELON_NIC", "ECHELON_NICS"},
                                                       {"ECHELON_ALGO", "ECHELON_ALGORITHM"},
                                                       {"ECHELON_MY_OWN", ""}}));
}

TEST(OptionTable, NamesAreUniqueSortedAndExplained) {
  std::string before;
  for (const OptionRow& row : option_table()) {
    EXPECT_LT(before, row.variable);
    EXPECT_FALSE(row.type.empty() || row.fallback.empty() || row.help.empty()) << row.variable;
    before = row.variable;
  }
  EXPECT_GT(option_table().size(), 10u);
}

// What is read is what is documented.
TEST(OptionTable, IsWhatIsLookedUp) {
  std::set<std::string> asked, listed;
  read_options([&](const char* name) -> const char* {
    if (!std::string_view(name).starts_with("UCX_")) asked.insert(name);
    return nullptr;
  });
  for (const OptionRow& row : option_table()) listed.insert(std::string(row.variable));
  EXPECT_EQ(asked, listed);
}

}  // namespace
}  // namespace echelon
