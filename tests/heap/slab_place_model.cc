// SPDX-License-Identifier: MIT
// heap_slab_place_model.cc: src/heap/slab_place.h: slabs of one CPU, made by whoever needs one first, filled by
// restartable sections that find them in their place, and seized and emptied by others.
//
// Promises  what sections put into a slab is taken out of it once; who has seized one has it to himself, once sections
//           are interrupted; a slab that nobody has seized and that is in no place is not the only one; what a thread
//           that a fork left behind had seized is put back
// Bounds    2 or 3 threads of up to 3 moves, on one CPU and another; a section is interrupted at most once by a thread
//           of its CPU, and by each membarrier. Weak memory, sleep sets, exhausted. Stops: each thread for ever at each
//           operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heap/slab_place.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

// Scripts: m makes a slab, or puts one back, if none is in its place; g adds to what is there by a section; d takes all
// out of all slabs; D the same where sections cannot be interrupted; F the thread
// forks: the others stay behind.
struct PlaceProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kSlabs = 4;
  static constexpr u64 kNone = 0;
  using Place = heap::SlabPlace<ModelEnv>;
  struct SlabOfCpu {
    Claim<ModelEnv> claim;
    ModelEnv::Atomic<u32> next;
    ModelEnv::Atomic<u32> content;
    ModelEnv::Plain<u32> made;  // written by its maker, and by who empties it: others must have seen that
  };
  const char* script[kThreads];
  int cpu[kThreads];
  SlabOfCpu slabs[kSlabs + 1];  // by index from 1 on
  ModelEnv::Atomic<u32> list, count;
  ModelEnv::Atomic<u64> place;
  u32 added[kThreads] = {}, taken[kThreads] = {};
  int forked = -1;

  PlaceProgram(int second_cpu, int third_cpu, const char* setup, const char* first, const char* second,
               const char* third)
      : script{first, second, third}, cpu{0, second_cpu, third_cpu} {
    for (; *setup != 0; ++setup) act(0, *setup);
    model_name(place, "place");
    for (u32 i = 1; i <= kSlabs; ++i) model_name(slabs[i].claim.word(), "claim", static_cast<int>(i));
    for (u32 i = 1; i <= kSlabs; ++i) model_name(slabs[i].content, "content", static_cast<int>(i));
  }

  Claimant who(int id) const {
    const u64 epoch = forked < 0 ? 1 : 2, first = forked < 0 ? 0 : static_cast<u64>(forked);
    return {Claimant::name(static_cast<u64>(id) + 1, epoch), Claimant::name(first + 1, epoch)};
  }
  template <class F> void each(F&& f) {
    for (u32 index = list.load_acquire(); index != 0; index = slabs[index].next.load_relaxed()) f(slabs[index]);
  }

  void make(int id) {
    if (const u64 there = Place::there(place);
        there != kNone && Place::is_settled(*reinterpret_cast<SlabOfCpu*>(there)))
      return;
    bool is_made = false;
    each([&](SlabOfCpu& slab) {
      is_made = true;
      Place::settle(place, slab, who(id));
    });
    if (is_made) return;
    const u32 index = count.fetch_add_relaxed(1) + 1;
    model_check(index <= kSlabs, "no more are made than there are threads");
    SlabOfCpu& slab = slabs[index];
    slab.made.set(1);
    model_check(slab.claim.take(who(id)), "a new one is its maker's");
    u32 head = list.load_relaxed();
    do slab.next.store_relaxed(head);
    while (!list.cas_release(head, index));
    Place::put(place, slab);
  }
  bool add(SlabOfCpu* slab) {
    model_check(slab->made.get() != 0, "what its maker did is seen");
    slab->content.store_relaxed(slab->content.load_relaxed() + 1);
    return true;
  }
  void add_in_place(int id) {
    added[id] += model_section([&] {
      const u64 there = Place::there(place);  // an acquire, where the machine orders it by the address that it yields
      return there != kNone && add(reinterpret_cast<SlabOfCpu*>(there));
    });
  }
  void empty(int id, bool refused) {
    SlabOfCpu* seized[kSlabs];
    unsigned many = 0;
    each([&](SlabOfCpu& slab) {
      if (slab.content.load_relaxed() != 0 && Place::seize(place, slab, who(id))) seized[many++] = &slab;
    });
    if (many == 0) return;
    const bool is_alone = model_thread() < 0;
    if (!refused && !is_alone && !ModelEnv::mutant("sections are not interrupted")) model_interrupt_sections();
    for (unsigned i = 0; i < many; ++i) {
      if (!refused) {
        seized[i]->made.set(seized[i]->made.get() + 1);
        const u32 content = seized[i]->content.load_relaxed();
        seized[i]->content.store_relaxed(0);
        taken[id] += content;
      }
      Place::put(place, *seized[i]);
    }
  }

  void act(int id, char move) {
    if (move == 'm') make(id);
    if (move == 'g') add_in_place(id);
    if (move == 'd' || move == 'D') empty(id, move == 'D');
    if (move == 'F') model_fork(), forked = id;
  }
  void thread(int id) {
    if (*script[id] != 0) model_cpu(cpu[id]);
    for (const char* move = script[id]; *move != 0; ++move) act(id, *move);
  }

  void finish() {
    u32 in = 0, out = 0, left = 0;
    for (int id = 0; id < kThreads; ++id) in += added[id], out += taken[id];
    each([&](SlabOfCpu& slab) { left += slab.content.load_relaxed(); });
    model_observe(in);
    model_observe(out);
    const bool somebody_missing = model_stalled() >= 0 || forked >= 0;
    // Who stopped behind the commit of his section, or of taking, had not counted it.
    model_check(somebody_missing ? out + left <= in + 1 : out + left == in, "what was put in is there once");
    if (model_stalled() >= 0) return;
    const int last = forked < 0 ? 0 : forked;
    make(last);
    model_check(Place::there(place) != kNone, "a slab is in its place");
    empty(last, /*refused=*/false);
    each([&](SlabOfCpu& slab) {
      model_check(slab.content.load_relaxed() == 0, "all that is there is found");
      model_check(Place::is_settled(slab), "it is its CPU's");
    });
  }
};

Scenario scenario(bool one_cpu, int restarts, const char* setup, const char* first, const char* second,
                  const char* third = "") {
  Scenario each{std::string(one_cpu ? "one CPU" : "two CPUs") + (restarts != 0 ? ", sections begin again, " : ", ") +
                    setup + ": " + first + " | " + second + " | " + third,
                program_type<PlaceProgram>(one_cpu ? 0 : 1, 1, setup, first, second, third)};
  each.options.reduction = Reduction::kSleep;
  each.options.restarts = restarts;
  return each;
}

std::vector<Scenario> by_hand() {
  return {scenario(false, 1, "mg", "g", "d"),     scenario(false, 1, "mg", "d", "d"),
          scenario(true, 1, "mg", "g", "d"),      scenario(true, 1, "m", "g", "g"),
          scenario(false, 1, "mg", "g", "D"),     scenario(true, 0, "", "mg", "mg"),
          scenario(false, 0, "", "mg", "d"),      scenario(false, 0, "mg", "mg", "d"),
          scenario(true, 0, "", "m", "mg", "d"),  scenario(false, 0, "mg", "g", "d", "d"),
          scenario(true, 0, "mg", "g", "m", "d"), scenario(false, 0, "mg", "g", "d", "m")};
}
std::vector<Scenario> forks() {
  return {scenario(false, 0, "mg", "d", "Fmd"), scenario(false, 0, "", "mg", "Fm"),
          scenario(false, 0, "mg", "D", "Fmd")};
}

TEST(HeapSlabPlaceModel, PromisesHold) { expect_hold(by_hand()); }
TEST(HeapSlabPlaceModel, AChildOfAForkPutsBackWhatWasSeized) { expect_hold(forks()); }
TEST(HeapSlabPlaceModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = {scenario(false, 0, "mg", "g", "d"), scenario(true, 0, "", "mg", "m"),
                               scenario(false, 0, "mg", "mg", "d")};
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(HeapSlabPlaceMutants, AreCaught) {
  for (const char* mutant : {"sections are not interrupted", "held ones are claimed"})
    expect_mutant_caught(by_hand(), mutant);
}
TEST(HeapSlabPlaceMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(by_hand(), "heap/slab_place.h"); }

}  // namespace
}  // namespace freeway::model
