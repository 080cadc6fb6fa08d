// SPDX-License-Identifier: MIT
//
// options_test.cc: options in the environment: a wrong value gets one line and the default is used; right ones get
// none; what they promise to print is printed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "abi_test.h"
#include "scenario.h"

namespace freeway::test {
namespace {

FREEWAY_SCENARIO(UsesTheHeap) {
  static void* blocks[3000];
  for (int i = 0; i < 3000; ++i) {
    blocks[i] = hide(malloc(size_t(i) * 3));
    require(blocks[i] != nullptr, "malloc");
    memset(blocks[i], i, size_t(i) * 3);
  }
  for (void* block : blocks) free(block);
}

int lines_in(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

TEST(Options, NothingIsPrintedByDefault) {
  const Outcome outcome = run_scenario("UsesTheHeap");
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, "");
}

TEST(Options, RightValuesGetNoWord) {
  for (const char* option : {"FREEWAY_RSEQ=0",
                             "FREEWAY_RSEQ=1",
                             "FREEWAY_ON_ERROR=abort",
                             "FREEWAY_ON_ERROR=report",
                             "FREEWAY_HARDEN=0",
                             "FREEWAY_HARDEN=1",
                             "FREEWAY_HARDEN=1,quarantine=0",
                             "FREEWAY_HARDEN=1,quarantine=1m,fill",
                             "FREEWAY_HARDEN=1,fill",
                             "FREEWAY_GUARD=0",
                             "FREEWAY_GUARD=1000",
                             "FREEWAY_GUARD=0,large",
                             "FREEWAY_GUARD=1000,large",
                             "FREEWAY_LIMIT=1g",
                             "FREEWAY_LIMIT=,90%",
                             "FREEWAY_PREFAULT=1m",
                             "FREEWAY_PURGE=never",
                             "FREEWAY_HUGE=never",
                             "FREEWAY_HUGE=always",
                             "FREEWAY_STATS=0",
                             "FREEWAY_DEEPBIND=0",
                             "FREEWAY_DEEPBIND=1"}) {
    const Outcome outcome = run_scenario("UsesTheHeap", 0, {option});
    EXPECT_TRUE(outcome.succeeded()) << option;
    EXPECT_EQ(outcome.err, "") << option;
  }
}

TEST(Options, AWrongValueGetsOneLineThatNamesItAndTheDefaultIsUsed) {
  for (const char* option :
       {"FREEWAY_RSEQ=maybe", "FREEWAY_ON_ERROR=explode", "FREEWAY_HARDEN=3", "FREEWAY_HARDEN=1,quarantine=1048577",
        "FREEWAY_HARDEN=1,quarantine=", "FREEWAY_HARDEN=0,fill", "FREEWAY_HARDEN=yes please", "FREEWAY_STATS=xml",
        "FREEWAY_GUARD=often", "FREEWAY_GUARD=-1", "FREEWAY_GUARD=,large", "FREEWAY_LIMIT=2g,1g", "FREEWAY_LIMIT=1000",
        "FREEWAY_PREFAULT=some", "FREEWAY_PREFAULT=1m1", "FREEWAY_PURGE=always", "FREEWAY_HUGE=1"}) {
    const std::string text = option;
    const std::string name = text.substr(0, text.find('=')), value = text.substr(text.find('=') + 1);
    const Outcome outcome = run_scenario("UsesTheHeap", 0, {option});
    EXPECT_TRUE(outcome.succeeded()) << option;
    EXPECT_EQ(lines_in(outcome.err), 1) << option << "\n" << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("freeway: ")) << outcome.err;
    EXPECT_NE(outcome.err.find(name), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(value), std::string::npos) << outcome.err;
  }
}

TEST(Options, AVeryLongWrongValueIsNoTrouble) {
  const std::string option = "FREEWAY_HARDEN=" + std::string(50000, 'x');
  const Outcome outcome = run_scenario("UsesTheHeap", 0, {option.c_str()});
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(lines_in(outcome.err), 1);
}

FREEWAY_SCENARIO(FreesAForeignPointer) {
  static char memory[64];
  free(hide(static_cast<void*>(memory + 16)));
  dprintf(1, "survived\n");
}

TEST(Options, TheDefaultOfOnErrorIsAbort) {
  EXPECT_TRUE(run_scenario("FreesAForeignPointer").aborted());
  EXPECT_TRUE(run_scenario("FreesAForeignPointer", 0, {"FREEWAY_ON_ERROR=explode"}).aborted());
  EXPECT_TRUE(run_scenario("FreesAForeignPointer", 0, {"FREEWAY_ON_ERROR=report"}).succeeded());
}

TEST(Options, StatsPrintsASummaryAtExit) {
  const Outcome outcome = run_scenario("UsesTheHeap", 0, {"FREEWAY_STATS=1"});
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.out, "");
  EXPECT_GE(lines_in(outcome.err), 5) << outcome.err;
  for (const char* word : {"live", "cached", "mapped", "superblocks"})
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word << "\n" << outcome.err;
}

TEST(Options, StatsAsJsonGoToTheFile) {
  char path[] = "/tmp/freeway-stats-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  close(fd);
  const std::string option = std::string("FREEWAY_STATS=json:") + path;
  const Outcome outcome = run_scenario("UsesTheHeap", 0, {option.c_str()});
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.err, "");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  unlink(path);
  // That it is JSON throughout is checked by tests/whole/golden, in a language that has a parser.
  EXPECT_TRUE(text.str().starts_with("{")) << text.str();
  EXPECT_NE(text.str().find("\"live\""), std::string::npos) << text.str();
}

TEST(Options, StatsToAFileThatCannotBeWrittenIsOneLine) {
  const std::string too_long = "FREEWAY_STATS=json:/" + std::string(10'000, '%');
  for (const char* option :
       {"FREEWAY_STATS=json:/nonexistent/directory/file", "FREEWAY_STATS=text:/nonexistent/%p/%", too_long.c_str()}) {
    const Outcome outcome = run_scenario("UsesTheHeap", 0, {option});
    EXPECT_TRUE(outcome.succeeded());
    EXPECT_EQ(lines_in(outcome.err), 1) << outcome.err;
  }
}

TEST(Options, StatsAsTextAreThoseOfStandardError) {
  char folder[] = "/tmp/freeway-stats-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/%%-%q-%";
  const Outcome outcome = run_scenario("UsesTheHeap", 0, {("FREEWAY_STATS=text:" + path).c_str()});
  EXPECT_TRUE(outcome.succeeded());
  EXPECT_EQ(outcome.err, "");
  std::stringstream text;
  const std::string written = std::string(folder) + "/%-%q-%";
  text << std::ifstream(written).rdbuf();
  unlink(written.c_str());
  EXPECT_EQ(rmdir(folder), 0) << "what is no %p and no %% stays as it is";
  EXPECT_TRUE(text.str().starts_with("freeway: what the heap did (")) << text.str();
  EXPECT_NE(text.str().find(", process "), std::string::npos) << text.str();
}

TEST(Options, StatsSayWhichPathIsUsed) {
  if (!on_flagship()) GTEST_SKIP() << "the flagship's paths";
  const Outcome outcome = run_scenario("UsesTheHeap", 0, {"FREEWAY_STATS=1"});
  const bool rseq = outcome.err.find("\n  path       per-CPU slabs in restartable") != std::string::npos;
  const bool spare = outcome.err.find("\n  path       spare") != std::string::npos;
  EXPECT_TRUE(rseq != spare) << outcome.err;
  const Outcome forced = run_scenario("UsesTheHeap", 0, {"FREEWAY_STATS=1", "FREEWAY_RSEQ=0"});
  EXPECT_NE(forced.err.find("\n  path       spare"), std::string::npos) << forced.err;
}

FREEWAY_SCENARIO(HasNoEnvironment) {
  // A program may run malloc with `environ` empty or null (env -i, or a loader that has not set it yet).
  clearenv();
  for (int i = 0; i < 1000; ++i) free(hide(malloc(size_t(i))));
  free(hide(static_cast<void*>(hide(malloc(2 * kLargestLarge)))));
}

TEST(Options, AnEmptyEnvironmentIsNoTrouble) { EXPECT_TRUE(run_scenario("HasNoEnvironment").succeeded()); }

}  // namespace
}  // namespace freeway::test
