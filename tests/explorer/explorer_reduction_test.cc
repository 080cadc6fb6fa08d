// SPDX-License-Identifier: MIT
// explorer_reduction_test.cc: the reduced searches see every outcome that the full search sees.
//
// Reductions that look right and are not are easy to write, so this is checked on random programs: 2 or 3 threads,
// loads, stores, RMWs, CASes and fences in all orders over few words with few values (so that CASes meet ABA), and
// operations that depend on what was read before. An outcome is everything that was read and what the words hold at
// the end; it also matters whether a race on plain data was found. FREEWAY_TEST_SEED=n repeats a run.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>

#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {
namespace {

using u32 = std::uint32_t;
constexpr int kWords = 3;
constexpr int kMostOperations = 5;

struct Step {
  int what;
  int word;
  u32 operand;
  u32 expected;
  bool only_if_odd;  // skipped unless the latest value read was odd
};

struct Script {
  int threads;
  int length[3];
  Step steps[3][kMostOperations];
  bool plain;  // writes and reads of plain data, where the failure "race" is part of the outcome
};

Script random_script(std::mt19937_64& random) {
  Script script{};
  script.threads = random() % 3 == 0 ? 3 : 2;
  const int words = 1 + static_cast<int>(random() % kWords);
  const u32 values = 2 + static_cast<u32>(random() % 2);
  const int most = script.threads == 3 ? 3 : kMostOperations;
  script.plain = random() % 3 == 0;
  for (int thread = 0; thread < script.threads; ++thread) {
    script.length[thread] = 1 + static_cast<int>(random() % static_cast<unsigned>(most));
    for (int at = 0; at < script.length[thread]; ++at) {
      Step& step = script.steps[thread][at];
      step.what = static_cast<int>(random() % (script.plain ? 16 : 13));
      step.word = static_cast<int>(random() % static_cast<unsigned>(words));
      step.operand = static_cast<u32>(random()) % values;
      step.expected = static_cast<u32>(random()) % values;
      step.only_if_odd = random() % 4 == 0;
    }
  }
  return script;
}

struct Interpreter {
  static constexpr int kThreads = 3;  // a thread without steps ends at once
  const Script* script;
  ModelEnv::Atomic<u32> word[kWords];
  ModelEnv::Plain<u32> plain[2];
  std::uint64_t read[3] = {};

  explicit Interpreter(const Script* s) : script(s) {}

  void thread(int id) {
    u32 latest = 1;
    for (int at = 0; at < script->length[id]; ++at) {
      const Step& step = script->steps[id][at];
      if (step.only_if_odd && latest % 2 == 0) continue;
      latest = execute(step, latest);
      read[id] = read[id] * 64 + latest + 1;
    }
  }

  u32 execute(const Step& step, u32 latest) {
    auto& w = word[step.word];
    u32 expected = step.expected;
    switch (step.what) {
      case 0: return w.load_relaxed();
      case 1: return w.load_acquire();
      case 2: w.store_relaxed(step.operand); return latest;
      case 3: w.store_release(step.operand); return latest;
      case 4: return w.fetch_add_relaxed(1) & 7;
      case 5: return w.fetch_or_release(1);
      case 6: return w.exchange_acq_rel(step.operand);
      case 7: w.cas_acq_rel(expected, step.operand); return expected + 8;
      case 8: return w.cas_relaxed(expected, step.operand) + expected * 2;
      case 9: return w.cas_release(expected, step.operand) + expected * 2;
      case 10: ModelEnv::fence_acquire(); return latest;
      case 11: return static_cast<u32>(model_choose(2));
      case 12: return w.cas_acquire_acquire(expected, step.operand) + expected * 2;
      case 13: plain[step.word % 2].set(step.operand); return latest;
      case 14: plain[step.word % 2].set(step.operand); return latest;
      default: (void)plain[step.word % 2].get(); return latest;
    }
  }

  void finish() {
    for (std::uint64_t values : read) model_observe(values);
    for (auto& w : word) model_observe(w.load_relaxed());
  }
};

std::uint64_t seed_of_run() {
  const char* given = std::getenv("FREEWAY_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 20261120;
}

class Reductions : public ::testing::TestWithParam<MemoryModel> {};

TEST_P(Reductions, SeeEveryOutcomeOfRandomPrograms) {
  const std::uint64_t seed = seed_of_run();
  const char* count = std::getenv("FREEWAY_MODEL_PROGRAMS");
  const std::uint64_t programs = count ? std::strtoull(count, nullptr, 10) : 3000;
  std::uint64_t total[3] = {}, racy = 0, left_out = 0, outcomes = 0;
  for (std::uint64_t number = 0; number < programs; ++number) {
    std::mt19937_64 random(seed + number);
    Script script = random_script(random);
    Options options{.memory = GetParam(), .max_executions = 300000};
    options.reduction = Reduction::kFull;
    Result full = explore<Interpreter>(options, &script);
    if (full.ok() && !full.exhausted) {
      ++left_out;
      continue;
    }
    racy += full.failed;
    outcomes += full.outcomes.size();
    total[0] += full.executions;
    for (Reduction reduction : {Reduction::kSleep, Reduction::kDpor}) {
      options.reduction = reduction;
      Result reduced = explore<Interpreter>(options, &script);
      total[reduction == Reduction::kSleep ? 1 : 2] += reduced.executions + reduced.pruned;
      ASSERT_EQ(reduced.failed, full.failed) << "FREEWAY_TEST_SEED=" << seed + number;
      if (full.failed) continue;
      ASSERT_TRUE(reduced.exhausted);
      ASSERT_EQ(reduced.outcomes, full.outcomes) << "FREEWAY_TEST_SEED=" << seed + number << ", " << reduced.summary();
    }
  }
  std::
      printf(
          "seed %llu: %llu programs (%llu too large for the full search), %llu racy, %llu outcomes; executions: full "
          "%llu, " "sleep sets %llu, source-DPOR %llu\n",
          static_cast<unsigned long long>(seed), static_cast<unsigned long long>(programs),
          static_cast<unsigned long long>(left_out), static_cast<unsigned long long>(racy),
          static_cast<unsigned long long>(outcomes), static_cast<unsigned long long>(total[0]),
          static_cast<unsigned long long>(total[1]), static_cast<unsigned long long>(total[2]));
  EXPECT_LT(left_out * 5, programs) << "the check must cover most programs";
  EXPECT_GT(racy, 0U);
}

INSTANTIATE_TEST_SUITE_P(Memory, Reductions, ::testing::Values(MemoryModel::kWeak, MemoryModel::kSequential),
                         [](const auto& model) { return model.param == MemoryModel::kWeak ? "Weak" : "Sequential"; });

}  // namespace
}  // namespace freeway::model
