// SPDX-License-Identifier: MIT
// heap_visit_model.cc: src/heap/visit.h: a heap that is made, used, destroyed and made again in one record, while
// others visit it.
//
// Promises  a visitor has the heap that it found as long as it visits it; a heap is ended once, when nobody visits it,
//           and the thread that ends it, or makes the next one, sees all that was done to it; none that was destroyed
//           is left, unless a thread stopped; in the child of a fork others' visits are over, and what they had been
//           left with is ended by the next visitor
// Bounds    2 and 3 threads of up to 3 moves; weak memory, sleep sets, exhausted. Stops: each thread for ever at each
//           operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heap/visit.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

// Scripts: c makes the heap, if its record is free; d destroys it; v visits it; h visits it, and a handler that
// interrupts the visit destroys it; F the thread forks: the others stay behind.
struct VisitProgram {
  static constexpr int kThreads = 3;
  using Heap = heap::Visit<ModelEnv>;

  const char* script[kThreads];
  ModelEnv::Atomic<u64> visitor, handle;
  ModelEnv::Atomic<u32> is_free;
  ModelEnv::Plain<u32> content;  // 0: there is no heap
  ModelEnv::Plain<u32> visits;
  u64 lives = 0;
  u32 made = 0, ended = 0;
  int forked = -1;
  u32 left_to_child = 0, ended_before = 0;  // heaps whose visitor stayed behind and was to end them

  VisitProgram(const char* setup, const char* first, const char* second, const char* third)
      : script{first, second, third} {
    model_name(visitor, "visitor");
    model_name(handle, "handle");
    is_free.store_relaxed(1);
    for (; *setup != 0; ++setup) act(0, *setup);
  }

  Claimant who(int id) const {
    const u64 epoch = forked < 0 ? 1 : 2, first = forked < 0 ? 0 : static_cast<u64>(forked);
    return {Claimant::name(static_cast<u64>(id) + 1, epoch), Claimant::name(first + 1, epoch)};
  }

  void make() {
    u32 one = 1;
    if (is_free.load_relaxed() == 0 || !is_free.cas_acquire(one, 0)) return;
    model_check(content.get() == 0, "the last heap was ended before its record was another's");
    content.set(1);
    ++made;
    handle.store_release(++lives);
  }
  void destroy(int id) {
    u64 seen = handle.load_acquire();  // as the program knows of it
    if (seen == 0 || !handle.cas_relaxed(seen, 0)) return;
    if (Heap::destroy(visitor, who(id))) end();
  }
  void end() {
    model_check(content.get() == 1, "a heap is ended once");
    content.set(0);
    ++ended;
    Heap::done(visitor);
    is_free.store_release(1);
  }
  void visit(int id, bool is_interrupted) {
    const Claimant me = who(id);
    const auto entered = Heap::enter(visitor, me);
    if (entered == Heap::Entered::kNo) return;
    if (entered == Heap::Entered::kToEnd) return end();
    const bool is_there = handle.load_acquire() != 0;
    if (is_interrupted) destroy(id);
    if (is_there) {
      model_check(content.get() == 1, "a visitor has the heap that it found");
      visits.set(visits.get() + 1);
    }
    if (Heap::leave(visitor, me)) end();
  }

  void fork(int id) {
    model_fork();
    forked = id;
    left_to_child = Heap::is_destroyed(visitor.load_relaxed());
    ended_before = ended;
  }

  void act(int id, char move) {
    if (move == 'c') make();
    if (move == 'd') destroy(id);
    if (move == 'v' || move == 'h') visit(id, move == 'h');
    if (move == 'F') fork(id);
  }
  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) act(id, *move);
  }

  void finish() {
    model_observe(made);
    model_observe(ended);
    if (model_stalled() >= 0) return;
    const int last = forked < 0 ? 0 : forked;
    if (forked < 0) {
      model_check(visitor.load_relaxed() == 0, "whoever entered has left");
      model_check(made == ended + (handle.load_relaxed() != 0), "what was destroyed is ended");
    } else {
      visit(last, false);
      model_check(ended >= ended_before + left_to_child, "what visitors that stayed behind had to end is ended");
      if (handle.load_relaxed() == 0) return;
      visit(last, false);
      const u32 before = ended;
      destroy(last);
      model_check(ended == before + 1, "a child's heaps are its own");
    }
  }
};

Scenario scenario(const char* setup, const char* first, const char* second, const char* third = "") {
  Scenario each{std::string(setup) + ": " + first + " | " + second + " | " + third,
                program_type<VisitProgram>(setup, first, second, third)};
  each.options.reduction = Reduction::kSleep;
  return each;
}

std::vector<Scenario> by_hand() {
  return {scenario("c", "d", "v"),       scenario("c", "v", "v"),      scenario("c", "dc", "v"),
          scenario("c", "dcd", "vv"),    scenario("", "cd", "v"),      scenario("c", "h", "v"),
          scenario("c", "hc", "vv"),     scenario("c", "h", "d"),      scenario("c", "d", "v", "v"),
          scenario("c", "dc", "v", "v"), scenario("c", "d", "v", "c"), scenario("c", "dc", "h", "v"),
          scenario("c", "d", "d", "v")};
}
std::vector<Scenario> forks() {
  return {scenario("c", "v", "Fvd"),     scenario("c", "v", "dF"), scenario("c", "v", "dFvc"),
          scenario("c", "v", "d", "Fv"), scenario("c", "h", "Fv"), scenario("c", "d", "Fv")};
}

TEST(HeapVisitModel, PromisesHold) { expect_hold(by_hand()); }
TEST(HeapVisitModel, AChildOfAForkEndsWhatVisitorsLeft) { expect_hold(forks()); }
TEST(HeapVisitModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = by_hand();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(HeapVisitMutants, AreCaught) {
  for (const char* mutant : {"entered by a store", "a visitor ends nothing", "ended beside a visitor"})
    expect_mutant_caught(by_hand(), mutant);
  expect_mutant_caught(forks(), "left to nobody in a child");
}
TEST(HeapVisitMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(by_hand(), "heap/visit.h"); }

}  // namespace
}  // namespace freeway::model
