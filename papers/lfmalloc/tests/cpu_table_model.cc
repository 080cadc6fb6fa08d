// SPDX-License-Identifier: MIT
// cpu_table_model.cc: papers/lfmalloc/cpu_table.h in all executions of small programs: threads that come first to a
// CPU.
//
// Script    of digits: find the heap of that CPU      Promises  a CPU has one heap for good, and who finds it sees that
// it is zeroed. With a thread stopped for ever: the same for the others
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/compiler.h"
#include "papers/lfmalloc/cpu_table.h"
#include "papers/lfmalloc/tests/model_world.h"
#include "tests/explorer/scenarios.h"

namespace freeway::lfmalloc::test {
namespace {

struct Heaps {
  static constexpr u32 kCpus = 2, kMade = 8;
  ModelEnv::Atomic<LocalHeap<CasEnv>*> slots[kCpus];
  ModelEnv::Atomic<u32> made;
  LocalHeap<CasEnv> heaps[kMade];
  ModelEnv::Plain<u32> zeroed[kMade];

  ModelEnv::Atomic<LocalHeap<CasEnv>*>& slot(u32 cpu) { return slots[cpu]; }
  LocalHeap<CasEnv>* make_heap() {
    const u32 n = made.fetch_add_relaxed(1);
    model_check(n < kMade, "the heaps suffice");
    zeroed[n].set(1);
    return &heaps[n];
  }
};

struct TableProgram {
  static constexpr int kThreads = 3;
  const char* script[kThreads];
  Heaps memory;
  CpuTable<CasEnv, Heaps> table;
  const LocalHeap<CasEnv>* found[kThreads][Heaps::kCpus] = {};

  TableProgram(const char* first, const char* second, const char* third) : script{first, second, third} {
    table.init(&memory);
    model_name(memory.slots, "slot");
    model_name(memory.zeroed, "zeroed");
  }
  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      if (*move == 'w') {
        walk();
        continue;
      }
      const u32 cpu = static_cast<u32>(*move - '0');
      const LocalHeap<CasEnv>* heap = table.find(cpu);
      model_check(heap != nullptr, "a CPU gets a heap");
      model_check(memory.zeroed[heap - memory.heaps].get() == 1, "which is zeroed");
      model_check(found[id][cpu] == nullptr || found[id][cpu] == heap, "and stays");
      found[id][cpu] = heap;
    }
  }
  u32 walk() {
    u32 heaps = 0;
    table.each([&](LocalHeap<CasEnv>& heap) { heaps += memory.zeroed[&heap - memory.heaps].get(); });
    return heaps;
  }
  void finish() {
    for (u32 cpu = 0; cpu < Heaps::kCpus; ++cpu)
      for (int id = 0; id < kThreads; ++id)
        model_check(found[id][cpu] == nullptr || found[id][cpu] == table.find(cpu), "all find the same");
    model_observe(walk());
  }
};

std::vector<Scenario> scenarios() {
  auto scenario = [](const char* first, const char* second, const char* third) {
    return Scenario{std::string(first) + " | " + second + " | " + third,
                    program_type<TableProgram>(first, second, third)};
  };
  return {scenario("0", "0", ""), scenario("00", "0", "0"), scenario("01", "10", ""), scenario("01", "10", "0"),
          scenario("01", "w", "")};
}

TEST(LfmallocCpuTableModel, Holds) { expect_hold(scenarios()); }
TEST(LfmallocCpuTableModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_all_hold(all);
}
TEST(LfmallocCpuTableModel, PublishingByStoreIsCaught) {
  expect_mutant_caught(scenarios(), "the heap that came second");
}
TEST(LfmallocCpuTableModel, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "lfmalloc/cpu_table.h"); }

}  // namespace
}  // namespace freeway::lfmalloc::test
