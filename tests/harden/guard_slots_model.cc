// SPDX-License-Identifier: MIT
// guard_slots_model.cc: src/harden/guard_slots.h, all executions of small programs, and the faults they must show.
//
// Promises  a slot is one thread's at a time, who takes it sees what the last one did to its page; of two frees of a
//           block one wins, and sees the block's facts; facts that are read while nobody moved the slot belong
//           together; the slot that has rested longest is used first, and never the last kResting ones; a heap that
//           ends retires all its blocks, and nobody else's; a thread that stops for ever keeps at most the slot in its
//           hands
// Bounds    2 and 3 threads of up to 4 moves, 2 slots of which 0 or 1 rest; weak memory, source-DPOR, exhausted. Stops:
//           each thread for ever at each operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harden/guard_slots.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

using guard::slot_word::is_idle;
using guard::slot_word::is_live;

// Scripts: + takes a slot and publishes a block there; a takes one and abandons it; - frees the thread's oldest block;
// x frees the block in slot 0, whoever made it; l looks at slot 0. h is + for a heap; d ends that heap, D does once its
// blocks were handed over by p.
template <unsigned kResting> struct SlotsProgram {
  static constexpr int kThreads = 3;
  static constexpr unsigned kSlots = 2;
  using Slots = guard::Slots<ModelEnv, kSlots, kResting>;

  const char* script[kThreads];
  Slots slots;
  ModelEnv::Plain<u32> page[kSlots];  // written by whoever has the slot in hand
  ModelEnv::Atomic<u32> blocks, handed_over;
  static constexpr u64 kHeap = 100;
  u32 made[8] = {}, freed[8] = {};  // by block number, which stands for all its facts
  bool is_of_heap[8] = {}, has_ended = false;
  unsigned kept[kThreads][4] = {};
  int kept_from[kThreads] = {}, kept_to[kThreads] = {};
  u64 ended[kSlots] = {};  // when the slot was last put to rest, by a single thread
  u64 time = 0;

  SlotsProgram(const char* first, const char* second, const char* third) : script{first, second, third} {
    model_name(slots, "slots");
    for (unsigned i = 0; i < kSlots; ++i) model_name(page[i], "page", static_cast<int>(i));
  }

  bool is_alone() const { return *script[1] == 0 && *script[2] == 0; }

  u64 owner_of(u64 n) const { return is_of_heap[n] ? kHeap : n; }
  void take(int id, bool publish, bool of_heap = false) {
    const unsigned i = slots.take();
    if (i == Slots::kNone) return;
    if (is_alone())
      for (unsigned k = 0; k < kSlots; ++k)
        model_check(k == i || !is_idle(slots.look(k).word) || ended[i] <= ended[k],
                    "the one that has rested longest is used");
    page[i].set(page[i].get() + 1);
    if (!publish) return slots.abandon(i);
    const u32 n = blocks.fetch_add_relaxed(1) + 1;
    ++made[n];
    is_of_heap[n] = of_heap;
    slots.publish(i, {n, n, {n, n}, owner_of(n)});
    kept[id][kept_to[id]++] = i;
  }
  void free(unsigned i) {
    if (slots.retire(i, slots.word(i), {7, 7})) put_to_rest(i);
  }
  void end_heap() {
    slots.retire_all(kHeap, {7, 7}, [&](unsigned i, const guard::Seen& seen) {
      model_check(is_of_heap[slots.look(i).birth.address], "the end of a heap retires its own blocks");
      model_check(seen.birth.address == slots.look(i).birth.address, "the end of a heap knows the facts of its blocks");
      put_to_rest(i);
    });
    has_ended = true;
  }
  void put_to_rest(unsigned i) {
    page[i].set(page[i].get() + 1);
    const auto seen = slots.look(i);
    model_check(seen.birth.address != 0 && seen.birth.address == seen.birth.size, "who frees a block sees its facts");
    ++freed[seen.birth.address];
    ended[i] = ++time;
    slots.rest(i);
  }
  void look() {
    const auto seen = slots.look(0);
    if (!seen.stable || !(is_live(seen.word) || (is_idle(seen.word) && seen.word != 0))) return;
    const u64 n = seen.birth.address;
    model_check(n != 0 && n == seen.birth.size && n == seen.birth.by.caller && n == seen.birth.by.thread,
                "facts are of one block");
    model_check(seen.birth.owner == owner_of(n), "so is the owner");
    if (is_idle(seen.word)) model_check(seen.death.caller == 7 && seen.death.thread == 7, "who freed it is known");
  }

  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      if (*move == '+' || *move == 'a') take(id, *move == '+');
      else if (*move == 'h') take(id, /*publish=*/true, /*of_heap=*/true);
      else if (*move == 'p') handed_over.store_release(1);
      else if (*move == 'd' || (*move == 'D' && handed_over.load_acquire() != 0)) end_heap();
      else if (*move == 'D') continue;
      else if (*move == 'x') free(0);
      else if (*move == 'l') look();
      else if (kept_from[id] < kept_to[id]) free(kept[id][kept_from[id]++]);
    }
  }

  void finish() {
    const auto counts = slots.counts();
    const u64 in_hand = counts.taken + counts.retiring;
    model_check(counts.idle + counts.live + in_hand == kSlots, "each slot is in one state");
    model_check(in_hand <= (model_stalled() >= 0 ? 1U : 0U), "only who stopped keeps a slot in hand");
    model_check(counts.idle + in_hand >= kResting, "some always rest");
    u64 live = 0;
    for (u32 n = 1; n < 8; ++n) {
      model_check(freed[n] <= made[n], "a block is freed once");
      live += made[n] - freed[n];
      model_check(!has_ended || !is_of_heap[n] || freed[n] == made[n], "a heap that has ended has no live blocks");
    }
    if (model_stalled() < 0) model_check(live == counts.live, "what was made and not freed is live");
    model_observe(counts.idle * 16 + counts.live);
  }
};

template <unsigned kResting = 0> Scenario slots(const char* first, const char* second, const char* third = "") {
  return {std::string(first) + " | " + second + " | " + third + (kResting != 0 ? ", one rests" : ""),
          program_type<SlotsProgram<kResting>>(first, second, third)};
}
std::vector<Scenario> scenarios() {
  return {slots("+", "+"),      slots("+-", "+-"),    slots("+-", "l"),    slots("+-+-", ""), slots("+-+-+-+-", ""),
          slots("+-", "x"),     slots("a", "+"),      slots("+x", "x"),    slots("+-+", "l"), slots<1>("+", "+"),
          slots<1>("++-+", ""), slots<1>("+-", "+-"), slots("+-+-+", "l"), slots("a+", "l"),  slots("+", "x", "l"),
          slots("hd", "+-"),    slots("h-d", "++"),   slots("hhd", "l"),   slots("+hd", "x"), slots("hp", "D", "+"),
          slots("h-+", "l")};
}

TEST(GuardSlotsModel, PromisesHold) { expect_hold(scenarios()); }
TEST(GuardSlotsModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}

TEST(GuardSlotsMutants, AreCaught) {
  for (const char* mutant : {"taken in two steps", "retired in two steps", "youngest first", "stamps stay",
                             "facts read once", "owner without its block"})
    expect_mutant_caught(scenarios(), mutant);
}
TEST(GuardSlotsMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "harden/guard_slots.h"); }

}  // namespace
}  // namespace freeway::model
