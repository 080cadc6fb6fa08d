// SPDX-License-Identifier: MIT
//
// environment_test.cc: every option of the library and of its engine with every kind of wrong value, alone and all at
// once, twice, and after damage to the environment itself: at most one line for each option, nothing in it that a
// terminal obeys, the default is used, and the heap works.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "abi_test.h"
#include "papers/front/options.h"
#include "scenario.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

FREEWAY_SCENARIO(UsesTheHeapABit) {
  static void* blocks[1000];
  for (int i = 0; i < 1000; ++i) {
    blocks[i] = hide(malloc(size_t(i) * 4));
    require(blocks[i] != nullptr, "malloc");
    memset(blocks[i], i, size_t(i) * 4);
  }
  for (void* block : blocks) free(block);
  // Still as by default: a bad pointer ends the process, if asked to try.
  if (argument == 1) free(hide(static_cast<void*>(reinterpret_cast<char*>(&blocks) + 32)));
}

// The library's own options are read by the same code in all engines' libraries: tried with the flagship alone.
const char* engine_name() { return on_flagship() ? "freeway" : getenv("FREEWAY_TEST_ENGINE"); }

// `values`: a number's range, or words.
struct Option {
  std::string name, values;
};
std::vector<Option> options() {
  std::vector<Option> all;
  if (on_flagship())
    all = {{"ON_ERROR", "abort|report"}, {"HARDEN", "0|1[,quarantine=BYTES][,fill]"},
           {"GUARD", "N[,large]"},       {"STATS", "0|1|json:PATH|text:PATH"},
           {"DEEPBIND", "0|1"},          {"RSEQ", "1|0|libc|force"}};
  for (const EngineOption& option : kEngineOptions)
    if (strcmp(option.engine, engine_name()) == 0) all.push_back({option.name, option.values});
  return all;
}

std::vector<std::string> wrong_values() {
  std::string binary, every_byte;
  for (int i = 0; i < 300; ++i) binary.push_back(static_cast<char>(1 + i * 7919 % 255));
  for (int i = 1; i < 256; ++i) every_byte.push_back(static_cast<char>(i));
  return {"-1",
          "+1",
          " 1",
          "1 ",
          "01x",
          "0x1",
          "1e3",
          "1.5",
          "2147483648",
          "4294967296",
          "9223372036854775807",
          "9223372036854775808",
          "18446744073709551615",
          "18446744073709551616",
          "340282366920938463463374607431768211456",
          "-9223372036854775808",
          "true",
          "YES",
          "|",
          "0|1",
          "..",
          "0..1024",
          "%s%n%s%n",
          "$(id)",
          "=",
          "==1",
          "\n",
          "1\n",
          "\x1b[2J\x1b]0;title\x07",
          "\xff\xfe",
          "\xf0\x9f\x98\x80",
          binary,
          every_byte,
          std::string(1000, '9'),
          std::string(100000, 'x')};
}

size_t lines_in(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

void expect_harmless(const std::string& text) {
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    ASSERT_NE(end, std::string::npos) << text;
    EXPECT_LT(end - at, 240u);
    for (size_t i = at; i < end; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      EXPECT_TRUE(byte >= ' ' && byte != 0x7f) << "byte " << unsigned(byte) << " in " << text.substr(at, end - at);
    }
  }
}

TEST(Environment, EveryWrongValueOfEveryOptionGetsOneHarmlessLine) {
  uint64_t values = 0;
  const std::vector<std::string> wrong = wrong_values();
  for (const Option& option : options()) {
    // The other engines' options are read by one function: each gets a third of the values, in turn.
    for (size_t i = on_flagship() ? 0 : values % 3; i < wrong.size(); i += on_flagship() ? 1 : 3) {
      const std::string& value = wrong[i];
      const std::string variable = "FREEWAY_" + option.name + "=" + value;
      const Outcome outcome = run_scenario("UsesTheHeapABit", 0, {variable.c_str()});
      ASSERT_TRUE(outcome.succeeded()) << option.name << ": " << outcome.exit_status << " " << outcome.signal << "\n"
                                       << outcome.err;
      EXPECT_EQ(lines_in(outcome.err), 1u) << outcome.err;
      EXPECT_TRUE(outcome.err.starts_with("freeway: FREEWAY_" + option.name + "=")) << outcome.err;
      EXPECT_TRUE(outcome.err.ends_with(" is not understood (" + option.values + "); the default is used\n"))
          << outcome.err;
      expect_harmless(outcome.err);
      if (HasFailure()) FAIL() << variable.substr(0, 100);
      ++values;
    }
  }
  if (values != 0) proof("bad input", "values in the environment", "processes", values);
}

TEST(Environment, AWrongValueLeavesTheDefault) {
  if (!on_flagship()) GTEST_SKIP() << "the same code";
  for (const std::string& value : wrong_values()) {
    const std::string variable = "FREEWAY_ON_ERROR=" + value;
    const Outcome outcome = run_scenario("UsesTheHeapABit", 1, {variable.c_str()});
    EXPECT_TRUE(outcome.aborted()) << outcome.err;
  }
}

TEST(Environment, AnEmptyValueIsNone) {
  for (const Option& option : options()) {
    const std::string variable = "FREEWAY_" + option.name + "=";
    const Outcome outcome = run_scenario("UsesTheHeapABit", 0, {variable.c_str()});
    EXPECT_TRUE(outcome.succeeded()) << option.name;
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(Environment, AllOptionsWrongAtOnceGetALineEach) {
  std::vector<std::string> variables;
  for (const Option& option : options()) variables.push_back("FREEWAY_" + option.name + "=\x01nonsense");
  std::vector<const char*> pointers;
  for (const std::string& variable : variables) pointers.push_back(variable.c_str());
  const Outcome outcome = run_scenario("UsesTheHeapABit", 0, pointers);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_EQ(lines_in(outcome.err), variables.size()) << outcome.err;
  expect_harmless(outcome.err);
}

TEST(Environment, OfAVariableThatIsThereTwiceTheFirstCounts) {
  EXPECT_TRUE(run_scenario("UsesTheHeapABit", 1, {"FREEWAY_ON_ERROR=report", "FREEWAY_ON_ERROR=abort"}).succeeded());
  EXPECT_TRUE(run_scenario("UsesTheHeapABit", 1, {"FREEWAY_ON_ERROR=abort", "FREEWAY_ON_ERROR=report"}).aborted());
  const Outcome outcome = run_scenario("UsesTheHeapABit", 0, {"FREEWAY_HARDEN=x", "FREEWAY_HARDEN=y"});
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(lines_in(outcome.err), 1u) << outcome.err;
  EXPECT_NE(outcome.err.find("FREEWAY_HARDEN=x"), std::string::npos) << outcome.err;
}

TEST(Environment, NamesThatAreOnlyAlikeAreNoOptions) {
  const Outcome outcome = run_scenario("UsesTheHeapABit", 1,
                                       {"FREEWAY_=1", "FREEWAY_HARDENED=x", "FREEWAY_HARDE=x", "freeway_HARDEN=x",
                                        "FREEWAY_ON_ERROR_=report", "XFREEWAY_ON_ERROR=report", "FREEWAY=x", "=x"});
  EXPECT_TRUE(outcome.aborted()) << outcome.err;
  EXPECT_EQ(lines_in(outcome.err), 1u) << outcome.err;
}

// Strings without '=', and thousands of variables.
TEST(Environment, DamagedOrHugeIsNoTrouble) {
  std::vector<std::string> variables = {"", "FREEWAY_HARDEN", "FREEWAY_", "FREEWAY_ON_ERROR", std::string(90000, 'A')};
  for (int i = 0; i < 5000; ++i) variables.push_back("VARIABLE_" + std::to_string(i) + "=" + std::string(20, 'v'));
  variables.push_back("FREEWAY_RSEQ=x");
  std::vector<const char*> pointers;
  for (const std::string& variable : variables) pointers.push_back(variable.c_str());
  const Outcome outcome = run_scenario("UsesTheHeapABit", 0, pointers);
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << outcome.err;
  EXPECT_EQ(lines_in(outcome.err), 1u) << "the last variable was not read\n" << outcome.err;
}

// Every pair of an engine's options, each at its ends: none of these is wrong, so none may be refused or crash.
TEST(Environment, TheEndsOfEveryRangeWorkTogether) {
  std::vector<std::vector<std::string>> each_ends;
  for (const EngineOption& option : kEngineOptions) {
    if (strcmp(option.engine, engine_name()) != 0) continue;
    const std::string values = option.values;
    std::vector<std::string> ends;
    if (const size_t dots = values.find(".."); dots != std::string::npos) {
      ends = {values.substr(0, dots), values.substr(dots + 2)};
    } else {
      ends = {values.substr(0, values.find('|')), values.substr(values.rfind('|') + 1)};
    }
    each_ends.push_back(
        {std::string("FREEWAY_") + option.name + "=" + ends[0], std::string("FREEWAY_") + option.name + "=" + ends[1]});
  }
  uint64_t pairs = 0;
  for (size_t i = 0; i < each_ends.size(); ++i) {
    for (size_t j = i + 1; j < each_ends.size(); ++j) {
      for (const std::string& one : each_ends[i]) {
        for (const std::string& other : each_ends[j]) {
          const Outcome outcome = run_scenario("UsesTheHeapABit", 0, {one.c_str(), other.c_str()});
          EXPECT_TRUE(outcome.succeeded()) << one << " " << other << " " << outcome.signal << outcome.err;
          EXPECT_EQ(outcome.err, "") << one << " " << other;
          ++pairs;
        }
      }
    }
  }
  if (pairs != 0) proof("bad input", "options at their ends", "processes", pairs);
}

}  // namespace
}  // namespace freeway::test
