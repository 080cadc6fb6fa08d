// SPDX-License-Identifier: MIT
//
// Tests of papers/front/options.h, and of parse_option, by which it and the command read values.
#include "papers/front/options.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/support/captured.h"

namespace freeway::test {
namespace {

// The value, or -1 if it was not understood (and then `value` was left alone).
long parsed(const char* values, const char* text) {
  constexpr u64 kUntouched = 0x5eed;
  u64 value = kUntouched;
  if (parse_option(values, text, &value)) return static_cast<long>(value);
  EXPECT_EQ(value, kUntouched) << values << " of " << text;
  return -1;
}

TEST(ParseOption, ANumberMustLieInItsRangeAndBeNothingElse) {
  EXPECT_EQ(parsed("0..64", "0"), 0);
  EXPECT_EQ(parsed("0..64", "64"), 64);
  EXPECT_EQ(parsed("13..22", "13"), 13);
  EXPECT_EQ(parsed("0..64", "007"), 7);
  for (const char* text :
       {"65", "-1", "+1", "", " 1", "1 ", "1k", "0x10", "x", "18446744073709551616", "18446744073709551617"})
    EXPECT_EQ(parsed("0..64", text), -1) << text;
  EXPECT_EQ(parsed("13..22", "12"), -1);
}

TEST(ParseOption, AWordIsItsPlaceInTheList) {
  EXPECT_EQ(parsed("fifo|lifo", "fifo"), 0);
  EXPECT_EQ(parsed("fifo|lifo", "lifo"), 1);
  EXPECT_EQ(parsed("1|3|4", "4"), 2) << "a list whose words are numbers is no range";
  EXPECT_EQ(parsed("64K|128K|1M", "1M"), 2);
  for (const char* text : {"", "fif", "fifoo", "FIFO", "fifo|lifo", "|", " fifo"})
    EXPECT_EQ(parsed("fifo|lifo", text), -1) << text;
}

TEST(EngineOptions, EveryDefaultIsOneOfTheValues) {
  for (const EngineOption& option : kEngineOptions) {
    EXPECT_NE(parsed(option.values, option.fallback), -1) << option.engine << " " << option.name;
    EXPECT_TRUE(std::any_of(std::begin(kEngines), std::end(kEngines), [&](const EngineDescription& engine) {
      return std::string(engine.name) == option.engine;
    })) << option.engine;
  }
}

TEST(EngineOptions, NoEngineHasTwoOfAName) {
  std::set<std::string> seen;
  for (const EngineOption& option : kEngineOptions)
    EXPECT_TRUE(seen.insert(std::string(option.engine) + " " + option.name).second)
        << option.engine << " " << option.name;
}

// A variable in the environment, for as long as it lives.
struct Variable {
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  const char* name_;
};

TEST(EngineOptions, TheEnvironmentDecidesWhereItIsUnderstood) {
  EXPECT_EQ(engine_option("michael", "PARTIAL_LIST"), 0u);
  EXPECT_EQ(engine_option("lfmalloc", "EMPTIES"), 16u);
  const Variable list("FREEWAY_PARTIAL_LIST", "lifo"), empties("FREEWAY_EMPTIES", "many");
  EXPECT_EQ(engine_option("michael", "PARTIAL_LIST"), 1u);
  EXPECT_EQ(engine_option("lfmalloc", "EMPTIES"), 16u);
  EXPECT_EQ(engine_option("streamflow", "PARTIAL_LIST"), 0u) << "another engine's option";
  EXPECT_EQ(engine_option("michael", "NO_SUCH_OPTION"), 0u);
}

TEST(EngineOptions, OnlyTheEnginesOwnWrongValuesAreNamed) {
  const Variable heaps("FREEWAY_HEAPS", "65"), empties("FREEWAY_EMPTIES", "many");
  const auto said = [](const char* engine, bool speak) {
    return captured(2, [&] { check_engine_options(engine, speak); });
  };
  EXPECT_EQ(said("michael", true), "") << "65 heaps are too many for lfmalloc only";
  const std::string both = said("lfmalloc", true);
  EXPECT_NE(both.find("FREEWAY_HEAPS=65 is not understood (0..64)"), std::string::npos) << both;
  EXPECT_NE(both.find("FREEWAY_EMPTIES=many"), std::string::npos) << both;
  EXPECT_EQ(std::count(both.begin(), both.end(), '\n'), 2);
  EXPECT_EQ(said("lfmalloc", false), "");
}

}  // namespace
}  // namespace freeway::test
