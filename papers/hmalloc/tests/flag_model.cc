// SPDX-License-Identifier: MIT
//
// The flag protocol between the owner of a superblock and the threads that free its blocks, the block cache lists
// included: all executions of small programs (heap_program.h), and the faults that they must show.
#include <gtest/gtest.h>

#include "heap_program.h"

namespace freeway::hmalloc {
namespace {

using model::Scenario;

std::vector<Scenario> scenarios() {
  return {
      // The owner has two blocks, both in use; one is freed elsewhere while it allocates.
      heap_scenario("a reset flag and the probe", "jmm1A", "m", "F"),
      heap_scenario("two reset flags and two probes", "jmm12A", "mm", "F", "F"),
      heap_scenario("reset and used again", "jmm1A", "mF", "F"),
      heap_scenario("the owner resets, too", "jmm1A", "Fm", "F"),
      heap_scenario<1>("one block: the list of superblocks", "jmm12A", "mm", "F", "F"),
      heap_scenario<1>("a superblock of the list, twice", "jmm1A", "mmf", "F"),
      // Cache lists: the freeing thread keeps the block, uses it itself, resets what does not fit.
      heap_scenario("cached by the freeing thread", "jmm1AjB", "m", "fm"),
      heap_scenario("cached, then reset", "jmm11AjB", "mm", "ff"),
      heap_scenario("cached, used, reset", "jmm1AjB", "m", "fmF"),
      heap_scenario("both threads cache", "jmm1AjB", "fm", "fm"),
      heap_scenario("a block passed on three times", "jmm1AjBjC", "m", "fms", "rF"),
      heap_scenario<1>("the third thread frees what the second had cached", "jm1AjBjC", "mm", "fms", "rf"),
      heap_scenario("two heaps free each other's", "jmAjmB", "sm", "frfm"),
      heap_scenario("each other's, without lists", "jmmAjmB", "Fsm", "rFFm"),
      // Trim: a superblock goes back once all its blocks are free, not before.
      heap_scenario("trim beside a reset", "jmm1A", "ft", "F"),
      heap_scenario("trim beside two resets", "jmm12A", "t", "F", "F"),
      heap_scenario("trim and a new superblock beside a reset", "jmm1A", "Ftm", "F"),
      heap_scenario("trim beside a cached block", "jmm1AjB", "ft", "fmF"),
      heap_scenario<1>("trim gives the list's superblocks back", "jmm12A", "tm", "F", "F"),
      heap_scenario<1>("another heap gets what was given back", "jm1AjB", "t", "Fm"),
  };
}

TEST(FlagModel, PromisesHold) { model::expect_hold(scenarios()); }

TEST(FlagModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  model::expect_hold(all);
}

// "A flag store relaxed" and "a flag load relaxed" are among these.
TEST(FlagModel, EachOrderOfTheFlagIsNeeded) { model::expect_orders_needed(scenarios(), "hmalloc/flag.h"); }

// The other reading of Algorithm 4: the freeing thread fills the list that the owner allocates from.
TEST(FlagModel, FillingTheOwnersListIsARace) { model::expect_mutant_caught(scenarios(), "the owner's list"); }

// The same where nobody reads old values: it is no matter of missing orders.
TEST(FlagModel, FillingTheOwnersListIsARaceInSequentialConsistency) {
  model::expect_caught(scenarios(), "the owner's list", [](model::Options& options) {
    options.mutant = "the owner's list";
    options.memory = model::MemoryModel::kSequential;
  });
}

// What goes wrong then, with a list of addresses as in Fig. 10 whose words are atomic, so that no race is in the way:
// two freeing threads read the same length, both write to the same place, and one block is lost; or the owner takes a
// block while a freeing thread puts the length back, and has it twice.
struct OwnersListProgram {
  static constexpr int kThreads = 2;

  const char* script[kThreads];
  bool count_lost;  // which of the two faults is looked for
  ModelEnv::Atomic<u32> length;
  ModelEnv::Atomic<u32> list[4];
  u32 taken[4] = {};
  int count = 0;
  u32 put_blocks = 0;

  OwnersListProgram(const char* first, const char* second, bool lost) : script{first, second}, count_lost(lost) {}

  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      const u32 n = length.load_acquire();
      if (*move == 't') {  // Algorithm 2, line 7
        if (n == 0) continue;
        taken[count++] = list[n - 1].load_relaxed();
        length.store_release(n - 1);
      } else {  // Algorithm 4, line 8: the block is '1' or '2'
        ++put_blocks;
        list[n].store_relaxed(static_cast<u32>(*move - '0'));
        length.store_release(n + 1);
      }
    }
  }

  void finish() {
    u32 places[4] = {};
    for (int i = 0; i < count; ++i) ++places[taken[i]];
    for (u32 i = 0; i < length.load_relaxed(); ++i) ++places[list[i].load_relaxed()];
    u32 all = 0;
    for (u32 block = 1; block <= 3; ++block) {
      model_check(count_lost || places[block] <= 1, "a block is in one place");
      all += places[block] != 0;
    }
    model_check(!count_lost || all == put_blocks, "no block is lost");
  }
};

TEST(FlagModel, AnOwnersListOfAtomicWordsLosesBlocksAndHandsThemOutTwice) {
  auto explore = [](const char* first, const char* second, bool lost) {
    model::Options options;
    options.memory = model::MemoryModel::kSequential;
    return model::explore<OwnersListProgram>(options, first, second, lost);
  };
  EXPECT_TRUE(explore("1tt2t", "", true).ok());
  EXPECT_TRUE(explore("1tt2t", "", false).ok());
  const model::Result lost = explore("1", "2", true), twice = explore("3tt", "1", false);
  EXPECT_TRUE(lost.failed);
  EXPECT_TRUE(twice.failed);
  std::printf("%s\n%s\n", lost.trace.c_str(), twice.trace.c_str());
}

TEST(FlagModel, TakingTheIndexthBlockUnseenIsCaught) { model::expect_mutant_caught(scenarios(), "unseen flag"); }
TEST(FlagModel, WaitingForTheIndexthBlockIsCaught) {
  model::expect_mutant_caught({heap_scenario("a reset flag and the probe", "jmm1A", "m", "F")},
                              "waits for the Index-th block");
}
TEST(FlagModel, TrimmingByVacantObjectsIsCaught) { model::expect_mutant_caught(scenarios(), "trim unseen"); }

TEST(FlagModel, ReductionsSeeAllOutcomes) {
  int compared = 0;
  for (const Scenario& each : scenarios()) {
    model::Options options{.max_executions = 20000};
    options.reduction = model::Reduction::kFull;
    const model::Result full = model::explore_program(each.program, options);
    if (!full.exhausted) continue;
    const model::Result reduced = model::explore_program(each.program, each.options);
    EXPECT_EQ(reduced.outcomes, full.outcomes) << each.name;
    ++compared;
  }
  std::printf("  %d scenarios compared\n", compared);
  EXPECT_GT(compared, 5);
}

}  // namespace
}  // namespace freeway::hmalloc
