// SPDX-License-Identifier: MIT
// explorer_sections_test.cc: restartable sections, membarrier and fork in the explorer do what the kernel does.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {
namespace {

using u32 = std::uint32_t;
using Outcomes = std::set<std::uint64_t>;

Result sleep_sets(ProgramType program, int restarts = 1) {
  Options options{.reduction = Reduction::kSleep, .restarts = restarts};
  Result reduced = explore_program(program, options);
  options.reduction = Reduction::kFull;
  Result full = explore_program(program, options);
  EXPECT_EQ(reduced.failed, full.failed);
  EXPECT_TRUE(full.failed || full.exhausted);
  if (!full.failed) {
    EXPECT_EQ(reduced.outcomes, full.outcomes);
    EXPECT_LE(reduced.executions, full.executions);
  }
  return reduced;
}

// A counter of the CPU's, counted by a load and a store.
struct PerCpuCounter {
  static constexpr int kThreads = 3;
  int cpu[3];
  bool in_section;
  ModelEnv::Atomic<u32> count[2];
  int restarts = 0;

  PerCpuCounter(int a, int b, int c, bool section) : cpu{a, b, c}, in_section(section) {}
  void add(ModelEnv::Atomic<u32>& word) { word.store_relaxed(word.load_relaxed() + 1); }
  void thread(int id) {
    if (cpu[id] < 0) return;
    model_cpu(cpu[id]);
    auto& word = count[cpu[id]];
    if (in_section)
      model_section([&] {
        ++restarts;
        add(word);
      });
    else add(word);
    if (in_section) --restarts;
  }
  void finish() {
    model_observe(count[0].load_relaxed() * 1000 + count[1].load_relaxed() * 100 + static_cast<u32>(restarts));
  }
};

std::set<u32> counts(const Result& result) {
  std::set<u32> values;
  for (std::uint64_t outcome : result.outcomes) values.insert(static_cast<u32>((outcome - 1) / 100));
  return values;
}

TEST(Sections, ThreadsOfOneCpuCountExactly) {
  for (int restarts : {0, 1, 2, 3}) {
    Result result = sleep_sets(program_type<PerCpuCounter>(0, 0, -1, true), restarts);
    EXPECT_TRUE(result.ok()) << result.report();
    EXPECT_EQ(counts(result), (std::set<u32>{20}));
    // Each number of restarts up to the bound happens, that of both threads together.
    EXPECT_GE(result.outcomes.size(), static_cast<std::size_t>(restarts) + 1);
  }
  EXPECT_EQ(counts(sleep_sets(program_type<PerCpuCounter>(0, 0, 0, true))), (std::set<u32>{30}));
  EXPECT_EQ(counts(sleep_sets(program_type<PerCpuCounter>(0, 0, 1, true))), (std::set<u32>{21}));
}

TEST(Sections, WithoutASectionAnUpdateIsLost) {
  EXPECT_EQ(counts(sleep_sets(program_type<PerCpuCounter>(0, 0, -1, false))), (std::set<u32>{10, 20}));
}

// The CPU's word, used from another CPU: what sections are not for.
struct WrongCpu {
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> count;
  void thread(int id) {
    model_cpu(id);
    model_section([&] { count.store_relaxed(count.load_relaxed() + 1); });
  }
  void finish() { model_observe(count.load_relaxed()); }
};

TEST(Sections, OfAnotherCpuAreNotInterrupted) {
  EXPECT_EQ(sleep_sets(program_type<WrongCpu>()).outcomes, (Outcomes{1 + 1, 2 + 1}));
}

// Who takes a slab out: the other CPU's sections that read the entry before must be over, or begin again.
struct TakenOut {
  static constexpr int kThreads = 2;
  bool interrupt;
  ModelEnv::Atomic<u32> entry{1};
  ModelEnv::Atomic<u32> content;
  ModelEnv::Plain<u32> mine;
  explicit TakenOut(bool i) : interrupt(i) {}
  void thread(int id) {
    model_cpu(id);
    if (id == 0) {
      model_section([&] {
        if (entry.load_relaxed() == 0) return;
        const u32 seen = content.load_relaxed();
        mine.set(seen);
        content.store_relaxed(seen + 1);
      });
    } else {
      entry.store_relaxed(0);
      if (interrupt) model_interrupt_sections();
      const u32 before = content.load_relaxed();
      mine.set(before);
      model_check(content.load_relaxed() == before, "it is ours alone");
      content.store_relaxed(before + 10);
    }
  }
  void finish() { model_observe(content.load_relaxed()); }
};

TEST(Sections, WhoInterruptsThemSeesAllThatWasCommittedAndNothingMore) {
  Result result = sleep_sets(program_type<TakenOut>(true));
  EXPECT_TRUE(result.ok()) << result.report();
  EXPECT_EQ(result.outcomes, (Outcomes{10 + 1, 11 + 1}));
  EXPECT_TRUE(sleep_sets(program_type<TakenOut>(false)).failed);
}

struct Migrates {
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> count[2];
  void add(int cpu) {
    model_cpu(cpu);
    model_section([&] { count[cpu].store_relaxed(count[cpu].load_relaxed() + 1); });
  }
  void thread(int id) {
    add(id);
    add(1 - id);
  }
  void finish() { model_check(count[0].load_relaxed() == 2 && count[1].load_relaxed() == 2, "each CPU has counted"); }
};

TEST(Sections, FollowTheirThreadToAnotherCpu) {
  Result result = sleep_sets(program_type<Migrates>());
  EXPECT_TRUE(result.ok()) << result.report();
}

TEST(Sections, AThreadThatStopsForEverInOneHoldsNobodyUp) {
  Options options{.reduction = Reduction::kSleep, .restarts = 0};
  Result result = explore_stalls<PerCpuCounter>(options, 0, 0, -1, true);
  EXPECT_TRUE(result.ok() && result.exhausted) << result.report();
  EXPECT_EQ(counts(result), (std::set<u32>{10, 20}));
}

// The child sees what its own thread saw; what the other threads do later is not there.
struct Forks {
  static constexpr int kThreads = 3;
  static constexpr unsigned kMadeLater = 1U << 2;
  ModelEnv::Atomic<u32> word, own;
  bool made = false;
  int left_behind = 0;
  void thread(int id) {
    if (id == 0) {
      word.fetch_add_relaxed(1);
      word.fetch_add_relaxed(1);
      left_behind = 1;
    } else if (id == 1) {
      own.store_relaxed(1);
      model_fork();
      own.store_relaxed(2);
      model_make_threads();
      word.fetch_add_relaxed(10);
    } else {
      model_check(own.load_relaxed() == 2, "a thread sees what its maker did");
      word.fetch_add_relaxed(100);
      made = true;
    }
  }
  void finish() {
    model_check(made, "the child's thread ran");
    model_observe(word.load_relaxed() * 10 + static_cast<u32>(left_behind));
  }
};

TEST(Forks, LeaveTheOtherThreadsBehindWhereverTheyAre) {
  Result result = sleep_sets(program_type<Forks>());
  EXPECT_TRUE(result.ok()) << result.report();
  EXPECT_EQ(result.outcomes, (Outcomes{1100 + 1, 1110 + 1, 1121 + 1}));
}

}  // namespace
}  // namespace freeway::model
