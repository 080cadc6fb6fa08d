// SPDX-License-Identifier: MIT
//
// Tests of os/options.h: what each variable of the environment does, and what is said of values that mean nothing.
#include "os/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/captured.h"

// What the program itself wants.
extern "C" {
extern const char* freeway_options;
const char* freeway_options = nullptr;
}

namespace freeway::test {
namespace {

// Reads the options of an environment; `said` is what was written meanwhile.
struct Reading {
  explicit Reading(std::vector<std::string> variables, bool speak = true) : entries(std::move(variables)) {
    std::vector<char*> pointers;
    for (std::string& entry : entries) pointers.push_back(entry.data());
    pointers.push_back(nullptr);
    char** const real = std::exchange(environ, pointers.data());
    said = captured(2, [&] { options = read_options(speak); });
    environ = real;
  }
  bool is_default() const {
    return options.use_rseq && !options.libc_rseq_only && !options.force_rseq && !options.report_only &&
           !options.harden && !options.keep_deepbind && !options.background && !options.stats &&
           options.stats_path == nullptr;
  }
  std::ptrdiff_t lines() const { return std::count(said.begin(), said.end(), '\n'); }
  std::vector<std::string> entries;
  Options options;
  std::string said;
};

TEST(Options, WithoutVariablesTheDefaultsAreUsedInSilence) {
  EXPECT_TRUE(Reading({}).is_default());
  EXPECT_EQ(Reading({}).said, "");
  EXPECT_TRUE(Reading({"PATH=/bin", "HOME=/"}).is_default());
}

TEST(Options, EachOptionHasItsTwoValues) {
  EXPECT_FALSE(Reading({"FREEWAY_RSEQ=0"}).options.use_rseq);
  EXPECT_TRUE(Reading({"FREEWAY_RSEQ=1"}).options.use_rseq);
  EXPECT_TRUE(Reading({"FREEWAY_ON_ERROR=report"}).options.report_only);
  EXPECT_FALSE(Reading({"FREEWAY_ON_ERROR=abort"}).options.report_only);
  EXPECT_EQ(Reading({"FREEWAY_HARDEN=1"}).options.harden, 1u);
  EXPECT_FALSE(Reading({"FREEWAY_HARDEN=0"}).options.harden);
  EXPECT_EQ(Reading({"FREEWAY_GUARD=1000"}).options.guard, 1000u);
  EXPECT_EQ(Reading({"FREEWAY_GUARD=0"}).options.guard, 0u);
  EXPECT_EQ(Reading({"FREEWAY_GUARD=1001x"}).options.guard, 0u);
  EXPECT_EQ(Reading({"FREEWAY_LIMIT=900m,1g"}).options.soft_limit, 900 * kMiB);
  EXPECT_EQ(Reading({"FREEWAY_LIMIT=900m,1g"}).options.hard_limit, kGiB);
  EXPECT_EQ(Reading({"FREEWAY_LIMIT=1g,900m"}).options.soft_limit, 0u);
  EXPECT_EQ(Reading({"FREEWAY_LIMIT=1g,900m"}).lines(), 1);
  EXPECT_EQ(Reading({}).options.hard_limit, 0u);
  EXPECT_TRUE(Reading({"FREEWAY_DEEPBIND=1"}).options.keep_deepbind);
  EXPECT_FALSE(Reading({"FREEWAY_DEEPBIND=0"}).options.keep_deepbind);
  EXPECT_TRUE(Reading({"FREEWAY_BACKGROUND=1"}).options.background);
  EXPECT_FALSE(Reading({"FREEWAY_BACKGROUND=0"}).options.background);
  EXPECT_EQ(Reading({"FREEWAY_BACKGROUND=1"}).options.background_rate, 0u);
  EXPECT_TRUE(Reading({"FREEWAY_BACKGROUND=64m/s"}).options.background);
  EXPECT_EQ(Reading({"FREEWAY_BACKGROUND=64m/s"}).options.background_rate, 64 * kMiB);
  for (const char* entry : {"FREEWAY_BACKGROUND=64m", "FREEWAY_BACKGROUND=64m/min", "FREEWAY_BACKGROUND=0/s",
                            "FREEWAY_BACKGROUND=65535/s", "FREEWAY_BACKGROUND=1025g/s", "FREEWAY_BACKGROUND=/s"}) {
    const Reading reading({entry});
    EXPECT_FALSE(reading.options.background) << entry;
    EXPECT_EQ(reading.lines(), 1) << entry;
  }
  EXPECT_TRUE(Reading({"FREEWAY_STATS=1"}).options.stats);
  EXPECT_FALSE(Reading({"FREEWAY_STATS=0"}).options.stats);
  for (const char* entry : {"FREEWAY_RSEQ=0", "FREEWAY_ON_ERROR=report", "FREEWAY_HARDEN=1", "FREEWAY_STATS=1"})
    EXPECT_EQ(Reading({entry}).said, "");
}

TEST(Options, HardenAndGuardTakeMoreBehindTheirNumber) {
  const Options plain = Reading({"FREEWAY_HARDEN=1"}).options,
                all = Reading({"FREEWAY_HARDEN=1,quarantine=1m,fill"}).options;
  EXPECT_EQ(plain.quarantine, 65536u);
  EXPECT_FALSE(plain.fill);
  EXPECT_EQ(all.quarantine, 1048576u);
  EXPECT_TRUE(all.fill && all.harden);
  EXPECT_EQ(Reading({"FREEWAY_HARDEN=1,fill,quarantine=0"}).options.quarantine, 0u);
  const Options both = Reading({"FREEWAY_GUARD=1000,large"}).options,
                large = Reading({"FREEWAY_GUARD=0,large"}).options;
  EXPECT_TRUE(both.guard_large && large.guard_large && !Reading({"FREEWAY_GUARD=1000"}).options.guard_large);
  EXPECT_TRUE(both.guard == 1000 && large.guard == 0);
  for (const char* wrong :
       {"HARDEN=0,fill", "HARDEN=1,", "HARDEN=1,fil", "HARDEN=1,fill2", "HARDEN=1fill", "HARDEN=fill",
        "HARDEN=1,quarantine=", "HARDEN=1,quarantine=1048577", "HARDEN=1,quarantine=-1", "HARDEN=10", "GUARD=large",
        "GUARD=,large", "GUARD=1,larger", "GUARD=1,", "GUARD=1000000001,large"}) {
    const Reading reading({std::string("FREEWAY_") + wrong});
    EXPECT_TRUE(reading.is_default() && reading.options.guard == 0 && !reading.options.guard_large) << wrong;
    EXPECT_FALSE(reading.options.fill) << wrong;
    EXPECT_EQ(reading.lines(), 1) << wrong;
  }
}

TEST(Options, RseqMayBeLibcsOnlyOrForced) {
  const Reading libc({"FREEWAY_RSEQ=libc"}), force({"FREEWAY_RSEQ=force"}), on({"FREEWAY_RSEQ=1"});
  EXPECT_TRUE(libc.options.use_rseq && libc.options.libc_rseq_only && !libc.options.force_rseq);
  EXPECT_TRUE(force.options.use_rseq && force.options.force_rseq && !force.options.libc_rseq_only);
  EXPECT_TRUE(on.is_default());
  EXPECT_EQ(libc.said + force.said, "");
}

TEST(Options, StatisticsAsJsonOrTextGoToTheNamedFile) {
  const Reading reading({"FREEWAY_STATS=json:/tmp/a b"});
  EXPECT_STREQ(reading.options.stats_path, "/tmp/a b");
  EXPECT_TRUE(reading.options.stats_json);
  EXPECT_FALSE(reading.options.stats);
  EXPECT_EQ(reading.said, "");
  const Reading nameless({"FREEWAY_STATS=json:"});
  EXPECT_EQ(nameless.options.stats_path, nullptr);
  EXPECT_EQ(nameless.lines(), 1);
  const Reading as_text({"FREEWAY_STATS=text:/tmp/%p"});
  EXPECT_STREQ(as_text.options.stats_path, "/tmp/%p");
  EXPECT_FALSE(as_text.options.stats_json);
}

TEST(Options, AllOfThemTogetherAreRead) {
  const Reading reading({"FREEWAY_STATS=1", "FREEWAY_HARDEN=1", "X=y", "FREEWAY_RSEQ=0", "FREEWAY_ON_ERROR=report"});
  EXPECT_TRUE(reading.options.stats && reading.options.harden && reading.options.report_only);
  EXPECT_FALSE(reading.options.use_rseq);
}

TEST(Options, AValueThatMeansNothingIsNamedInOneLineAndTheDefaultUsed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"RSEQ", "yes"}, {"RSEQ", "01"},  {"ON_ERROR", "Abort"}, {"HARDEN", "2"}, {"STATS", "jsonx"},
      {"GUARD", "x"},  {"GUARD", "-1"}, {"PURGE", "2"},        {"STATS", "11"}, {"ON_ERROR", "report "}};
  for (const auto& [name, value] : wrong) {
    const std::string entry = std::string("FREEWAY_") + name + "=" + value;
    const Reading reading({entry});
    EXPECT_TRUE(reading.is_default()) << entry;
    EXPECT_EQ(reading.lines(), 1) << entry;
    EXPECT_NE(reading.said.find(entry), std::string::npos) << reading.said;
    EXPECT_EQ(reading.said.rfind("freeway: ", 0), 0u) << reading.said;
    EXPECT_TRUE(Reading({entry}, false).is_default());
    EXPECT_EQ(Reading({entry}, false).said, "") << "unless it was told to be silent";
  }
  EXPECT_NE(Reading({"FREEWAY_ON_ERROR=x"}).said.find("abort|report"), std::string::npos) << "it says what would do";
  EXPECT_EQ(Reading({"FREEWAY_RSEQ=a", "FREEWAY_HARDEN=b", "FREEWAY_STATS=c"}).lines(), 3);
}

TEST(Options, AnEmptyValueIsNone) {
  const Reading reading({"FREEWAY_RSEQ=", "FREEWAY_STATS=", "FREEWAY_ON_ERROR="});
  EXPECT_TRUE(reading.is_default());
  EXPECT_EQ(reading.said, "");
}

TEST(Options, AVeryLongValueIsCutOffAndStaysOneLine) {
  const Reading reading({"FREEWAY_HARDEN=" + std::string(5000, 'y')});
  EXPECT_TRUE(reading.is_default());
  EXPECT_EQ(reading.lines(), 1);
  EXPECT_LE(reading.said.size(), 240u);
}

TEST(Options, OnlyTheWholeNameCounts) {
  const Reading reading({"FREEWAY_RSE=0", "FREEWAY_RSEQS=0", "FREEWAY_RSEQ", "XFREEWAY_RSEQ=0", "freeway_rseq=0",
                         "FREEWAY_HARDEN_MORE=1", "FREEWAY_STATS_JSON=1", "FREEWAY_=1", "=1", ""});
  EXPECT_TRUE(reading.is_default());
  EXPECT_EQ(reading.said, "");
}

TEST(Options, OfTwoEntriesTheFirstCounts) {
  EXPECT_TRUE(Reading({"FREEWAY_HARDEN=1", "FREEWAY_HARDEN=0"}).options.harden);
  EXPECT_FALSE(Reading({"FREEWAY_HARDEN=0", "FREEWAY_HARDEN=1"}).options.harden);
}

TEST(Options, BeforeTheEnvironmentIsThereTheDefaultsAreUsed) {
  EXPECT_TRUE(options_available());
  char** const real = std::exchange(environ, nullptr);
  const bool available = options_available();
  const Options options = read_options(true);
  environ = real;
  EXPECT_FALSE(available);
  EXPECT_TRUE(options.use_rseq);
  EXPECT_FALSE(options.harden || options.stats || options.report_only);
}

// The options of a program that says this itself.
Reading reading_of(const std::string& text, std::vector<std::string> variables = {}, bool speak = true) {
  freeway_options = text.c_str();
  Reading reading(std::move(variables), speak);
  freeway_options = nullptr;
  return reading;
}

TEST(ProgramOptions, AreHeardWhereTheEnvironmentSaysNothing) {
  const Reading reading = reading_of("HARDEN=1,fill; GUARD=1000;\n\tLIMIT=900m,1g ;RSEQ=0");
  EXPECT_EQ(reading.options.harden, 1u);
  EXPECT_TRUE(reading.options.fill);
  EXPECT_EQ(reading.options.guard, 1000u);
  EXPECT_FALSE(reading.options.use_rseq);
  EXPECT_EQ(reading.lines(), 1) << "a blank before the ; is part of the value";
  EXPECT_NE(reading.said.find("freeway_options: LIMIT=900m,1g  is not understood"), std::string::npos) << reading.said;
}

TEST(ProgramOptions, TheEnvironmentWinsOptionByOption) {
  const std::string text = "HARDEN=1;ON_ERROR=report;GUARD=5";
  const Reading reading = reading_of(text, {"FREEWAY_HARDEN=0", "FREEWAY_GUARD=7", "FREEWAY_ON_ERROR="});
  EXPECT_EQ(reading.options.harden, 0u);
  EXPECT_EQ(reading.options.guard, 7u);
  EXPECT_TRUE(reading.options.report_only) << "an empty value in the environment is none";
}

TEST(ProgramOptions, EveryValueCanBeWritten) {
  EXPECT_EQ(reading_of("LIMIT=900m,1g").options.hard_limit, u64{1} << 30);
  EXPECT_EQ(reading_of("LIMIT=,1g;PREFAULT=64m").options.prefault, u64{64} << 20);
  const Options options = reading_of("STATS=json:/a folder/x=1,%p.json;HARDEN=1").options;
  EXPECT_TRUE(options.stats_json);
  EXPECT_STREQ(options.stats_path, "/a folder/x=1,%p.json");
  EXPECT_EQ(options.harden, 1u);
}

TEST(ProgramOptions, OfWhatIsThereTwiceTheFirstCounts) {
  EXPECT_EQ(reading_of("HARDEN=1;HARDEN=0").options.harden, 1u);
}

TEST(ProgramOptions, NamesAreWholeAndHaveNoPrefix) {
  EXPECT_TRUE(reading_of("FREEWAY_HARDEN=1;XHARDEN=1;HARDEN;HARDENED=1;=1;;; ;").is_default());
  EXPECT_TRUE(reading_of("").is_default());
}

TEST(ProgramOptions, ATextThatIsTooLongIsNotUsed) {
  const std::string longest = "HARDEN=1;" + std::string(kLongestOptions - 1 - 9, 'x');
  EXPECT_EQ(reading_of(longest).options.harden, 1u);
  EXPECT_EQ(reading_of(longest).said, "");
  const Reading reading = reading_of(longest + "x");
  EXPECT_EQ(reading.options.harden, 0u);
  EXPECT_EQ(reading.said, "freeway: freeway_options is longer than 1023 bytes: not used\n");
  EXPECT_EQ(reading_of(longest + "x", {}, false).said, "");
}

TEST(ProgramOptions, EnginesOptionsAreAmongThem) {
  freeway_options = "TREES=7";
  EXPECT_STREQ(option_text("TREES"), "7");
  freeway_options = nullptr;
  EXPECT_EQ(option_text("TREES"), nullptr);
}

}  // namespace
}  // namespace freeway::test
