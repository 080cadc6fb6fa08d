// SPDX-License-Identifier: MIT
// heap_cache_place_model.cc: src/heap/cache_place.h: caches of one CPU, made by whoever needs one first, filled by restartable
// sections that find them in their place or know their address, and seized and emptied by others.
//
// Promises  what sections put into a cache is taken out of it once; who has seized one has it to himself, once sections are
//           interrupted; a cache that nobody has seized and that is in no place is not the only one; what a thread that a fork left
//           behind had seized is put back
// Bounds    2 or 3 threads of up to 3 moves, on one CPU and another; a section is interrupted at most once by a thread of its CPU,
//           and by each membarrier. Weak memory, sleep sets, exhausted. Stops: each thread for ever at each operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heap/cache_place.h"
#include "model/explorer.h"
#include "model/model_env.h"
#include "model/scenarios.h"

namespace freeway::model {
namespace {

// Scripts: m makes a cache, or puts one back, if none is in its place; g adds to what is there by a section; a the same, by the
// address that was there before; d takes all out of all caches; D the same where sections cannot be interrupted; F the thread
// forks: the others stay behind.
struct PlaceProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kCaches = 4;
  static constexpr u64 kNone = 0, kId = 0;
  using Place = heap::CachePlace<ModelEnv>;
  struct Cache {
    ModelEnv::Atomic<u64> owner;
    ModelEnv::Atomic<u32> id, next;
    ModelEnv::Atomic<u32> content;
    ModelEnv::Plain<u32> made;  // written by its maker, and by who empties it: others must have seen that
  };
  const char* script[kThreads];
  int cpu[kThreads];
  Cache caches[kCaches + 1];  // by index from 1 on
  ModelEnv::Atomic<u32> list, count;
  ModelEnv::Atomic<u64> place;
  u32 added[kThreads] = {}, taken[kThreads] = {};
  int forked = -1;

  PlaceProgram(int second_cpu, int third_cpu, const char* setup, const char* first, const char* second, const char* third)
      : script{first, second, third}, cpu{0, second_cpu, third_cpu} {
    for (; *setup != 0; ++setup) act(0, *setup);
    model_name(place, "place");
    for (u32 i = 1; i <= kCaches; ++i) model_name(caches[i].owner, "owner", static_cast<int>(i));
    for (u32 i = 1; i <= kCaches; ++i) model_name(caches[i].content, "content", static_cast<int>(i));
  }

  process::Claimant who(int id) const {
    const u64 epoch = forked < 0 ? 1 : 2, first = forked < 0 ? 0 : static_cast<u64>(forked);
    return {process::Claimant::name(static_cast<u64>(id) + 1, epoch), process::Claimant::name(first + 1, epoch)};
  }
  template <class F>
  void each(F&& f) {
    for (u32 index = list.load_acquire(); index != 0; index = caches[index].next.load_relaxed()) f(caches[index]);
  }

  void make(int id) {
    if (const u64 there = Place::there(place); there != kNone && Place::is_settled(*reinterpret_cast<Cache*>(there))) return;
    bool is_made = false;
    each([&](Cache& cache) {
      is_made = true;
      Place::settle(place, cache, who(id));
    });
    if (is_made) return;
    const u32 index = count.fetch_add_relaxed(1) + 1;
    model_check(index <= kCaches, "no more are made than there are threads");
    Cache& cache = caches[index];
    cache.made.set(1);
    cache.owner.store_relaxed(who(id).self);
    u32 head = list.load_relaxed();
    do cache.next.store_relaxed(head);
    while (!list.cas_release(head, index));
    Place::put(place, cache);
  }
  bool add(Cache* cache) {
    model_check(cache->made.get() != 0, "what its maker did is seen");
    cache->content.store_relaxed(cache->content.load_relaxed() + 1);
    return true;
  }
  void add_in_place(int id) {
    added[id] += model_section([&] {
      const u64 there = Place::there(place);  // an acquire, where the machine orders it by the address that it yields
      return there != kNone && add(reinterpret_cast<Cache*>(there));
    });
  }
  void add_by_address(int id) {
    auto* cache = reinterpret_cast<Cache*>(Place::there(place));
    if (cache == nullptr) return;
    added[id] += model_section([&] {
      if (cache->owner.load_acquire() != kId && !ModelEnv::mutant("the owner is not tested")) return false;
      return add(cache);
    });
  }
  void empty(int id, bool refused) {
    Cache* seized[kCaches];
    unsigned many = 0;
    each([&](Cache& cache) {
      if (cache.content.load_relaxed() != 0 && Place::seize(place, cache, who(id))) seized[many++] = &cache;
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
    if (move == 'a') add_by_address(id);
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
    each([&](Cache& cache) { left += cache.content.load_relaxed(); });
    model_observe(in);
    model_observe(out);
    const bool somebody_missing = model_stalled() >= 0 || forked >= 0;
    // Who stopped behind the commit of his section, or of taking, had not counted it.
    model_check(somebody_missing ? out + left <= in + 1 : out + left == in, "what was put in is there once");
    if (model_stalled() >= 0) return;
    const int last = forked < 0 ? 0 : forked;
    make(last);
    model_check(Place::there(place) != kNone, "a cache is in its place");
    empty(last, /*refused=*/false);
    each([&](Cache& cache) {
      model_check(cache.content.load_relaxed() == 0, "all that is there is found");
      model_check(cache.owner.load_relaxed() == kId, "it is its CPU's");
    });
  }
};

Scenario scenario(bool one_cpu, int restarts, const char* setup, const char* first, const char* second, const char* third = "") {
  Scenario each{std::string(one_cpu ? "one CPU" : "two CPUs") + (restarts != 0 ? ", sections begin again, " : ", ") + setup + ": " +
                    first + " | " + second + " | " + third,
                program_type<PlaceProgram>(one_cpu ? 0 : 1, 1, setup, first, second, third)};
  each.options.reduction = Reduction::kSleep;
  each.options.restarts = restarts;
  return each;
}

std::vector<Scenario> by_hand() {
  return {scenario(false, 1, "mg", "g", "d"),  scenario(false, 1, "mg", "a", "d"),     scenario(false, 1, "mg", "d", "d"),
          scenario(true, 1, "mg", "g", "d"),   scenario(true, 1, "mg", "a", "d"),      scenario(true, 1, "m", "a", "g"),
          scenario(false, 1, "mg", "g", "D"),  scenario(true, 0, "", "mg", "mg"),      scenario(false, 0, "", "mg", "d"),
          scenario(false, 0, "mg", "mg", "d"), scenario(false, 0, "mg", "ma", "d"),    scenario(true, 0, "", "m", "ma", "d"),
          scenario(true, 0, "", "m", "mg", "d"), scenario(false, 0, "mg", "a", "d", "d"), scenario(true, 0, "mg", "g", "m", "d"),
          scenario(false, 0, "mg", "g", "d", "m")};
}
std::vector<Scenario> forks() {
  return {scenario(false, 0, "mg", "d", "Fmd"), scenario(false, 0, "", "mg", "Fm"), scenario(false, 0, "mg", "D", "Fmd")};
}

TEST(HeapCachePlaceModel, PromisesHold) { expect_hold(by_hand()); }
TEST(HeapCachePlaceModel, AChildOfAForkPutsBackWhatWasSeized) { expect_hold(forks()); }
TEST(HeapCachePlaceModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = {scenario(false, 0, "mg", "g", "d"), scenario(false, 0, "mg", "a", "d"),
                               scenario(true, 0, "", "mg", "m"), scenario(false, 0, "mg", "mg", "d")};
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(HeapCachePlaceMutants, AreCaught) {
  for (const char* mutant : {"sections are not interrupted", "the owner is not tested", "seized twice", "its CPU's before it is in place"})
    expect_mutant_caught(by_hand(), mutant);
}
TEST(HeapCachePlaceMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(by_hand(), "heap/cache_place.h"); }

}  // namespace
}  // namespace freeway::model
