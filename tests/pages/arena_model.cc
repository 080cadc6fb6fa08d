// SPDX-License-Identifier: MIT
// pages_arena_model.cc: src/pages/arena.h in all executions of small programs: the words of chunks, runs across their
// ends and over several of them, purges, and the hint where to search.
//
// World     three chunks, all accessible but where a scenario says otherwise. Which frames are free, which are dirty
//           and which runs threads own at the start is the scenario's; all others are owned by nobody who moves
// Scripts   t<n> take n frames   a<n> take n at a multiple of n   g give the oldest run   h give its first frame
//           z give the oldest run, whose memory has gone already
//           e<n> take the n frames behind the oldest run          p purge all that is free and dirty
// Promises  a frame has one owner (each writes to it); what is free and said to be zero is; at the end every used frame
//           belongs to somebody, and a search finds every free one. With a thread stopped for ever: what is used and
//           nobody's is what that thread had in hand, and the free frames that a search does not find lie in one chunk
//           and are found once a frame is given back there
// Bounds    2 or 3 threads, 1 to 3 calls each, runs of up to 67 frames; weak memory, no other bound
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pages/arena.h"
#include "tests/explorer/scenarios.h"
#include "tests/pages/pages_world.h"

namespace freeway::model {
namespace {

struct FrameRun {
  u32 first, frames;
};

struct ArenaScript {
  u64 free[3], dirty[3];  // frames of each chunk
  FrameRun owned[3];      // by each thread at the start
  const char* thread[3];
  u32 accessible = 3;  // chunks that need no commit any more
  std::size_t most_committed = ~std::size_t{0};
};

struct ArenaProgram {
  static constexpr int kThreads = 3;  // a thread with an empty script ends at once
  static constexpr u32 kFrames = PagesKernel::kChunks * kChunkFrames;

  ArenaScript script;
  PagesKernel kernel;
  Chunk<PagesEnv> chunks[PagesKernel::kChunks];
  Arena<PagesEnv> arena;
  Belongings<FrameRun> runs[kThreads];
  bool idle[PagesKernel::kChunks][kChunkFrames] = {};  // owned by nobody who moves
  u32 count = 0;                                       // chunks
  u32 in_hand[kThreads] = {};                          // frames that a thread may take along if it stops now

  explicit ArenaProgram(const ArenaScript& s) : script(s) {
    PagesEnv::kernel = &kernel;
    model_name(arena, "arena");
    for (int c = 0; c < static_cast<int>(PagesKernel::kChunks); ++c) {
      model_name(chunks[c].used, "used", c);
      model_name(chunks[c].dirty, "dirty", c);
    }
    while (count < PagesKernel::kChunks && is_used_from(count)) ++count;
    arena.init({PagesKernel::kArena, true}, count * kChunkSize, chunks);
    arena.take((script.accessible < count ? script.accessible : count) * kChunkFrames, 1);
    for (u32 c = 0; c < count; ++c) {
      chunks[c].used.store_relaxed(~script.free[c]);
      chunks[c].dirty.store_relaxed(script.dirty[c]);
      for (u32 f = 0; f < kChunkFrames; ++f) {
        if ((script.dirty[c] >> f & 1) != 0) kernel.content(address(c * kChunkFrames + f)).set(1);
        idle[c][f] = (script.free[c] >> f & 1) == 0;
      }
    }
    for (int id = 0; id < kThreads; ++id) {
      const FrameRun run = script.owned[id];
      if (run.frames != 0) runs[id].add(run);
      for (u32 f = run.first; f < run.first + run.frames; ++f) idle[f / kChunkFrames][f % kChunkFrames] = false;
    }
    kernel.settle();
    kernel.most_committed = script.most_committed;
  }

  // Whether the scenario says something of this chunk or one above: others are left away.
  bool is_used_from(u32 chunk) const {
    bool used = chunk == 0;
    for (u32 c = chunk; c < PagesKernel::kChunks; ++c) used |= script.free[c] != 0;
    for (const FrameRun& run : script.owned) used |= run.first + run.frames > chunk * kChunkFrames;
    return used;
  }
  static uptr address(u32 frame) { return PagesKernel::kArena + frame * kFrameSize; }
  static u32 frame_of(uptr address) { return static_cast<u32>((address - PagesKernel::kArena) / kFrameSize); }

  void thread(int id) {
    each_move(script.thread[id], [&](Move move) { act(move, runs[id], in_hand[id]); });
  }

  void act(Move move, Belongings<FrameRun>& mine, u32& hand) {
    switch (move.letter) {
      case 't': hand = move.number, received(arena.take(move.number, 1), move.number, mine); break;
      case 'a': hand = move.number, received(arena.take(move.number, move.number), move.number, mine); break;
      case 'g':
        if (mine.any()) {
          hand = mine.oldest().frames;
          give(mine.remove());
        }
        break;
      case 'z':
        if (mine.any()) {
          hand = mine.oldest().frames;
          const FrameRun run = mine.remove();
          kernel.each_frame(address(run.first), run.frames * kFrameSize, [](auto& content) { content.set(0); });
          arena.give(address(run.first), run.frames, /*zero=*/true);
        }
        break;
      case 'h':
        if (mine.any()) {
          hand = 1;
          ++mine.oldest().first;
          --mine.oldest().frames;
          give({mine.oldest().first - 1, 1});
        }
        break;
      case 'e':
        if (mine.any()) {
          hand = move.number;
          FrameRun& oldest = mine.oldest();
          const Run run = arena.take_at(address(oldest.first + oldest.frames), move.number);
          if (!run) break;
          model_check(run.address == address(oldest.first + oldest.frames), "the frames behind the run");
          kernel.write_fresh(run.address, move.number, run.dirty);
          oldest.frames += move.number;
        }
        break;
      case 'p':
        hand = kChunkFrames;
        arena.purge([] { return std::size_t{1}; }, 0,
                    [](uptr, std::size_t, unsigned frames) {
                      model_check(frames >= 1 && frames <= kChunkFrames, "a purge counts the frames of one run");
                    });
        break;
      default: model_check(false, "a letter that means something");
    }
    hand = 0;
  }

  void received(const Run& run, u32 frames, Belongings<FrameRun>& mine) {
    if (!run) return;
    kernel.write_fresh(run.address, frames, run.dirty);
    mine.add({frame_of(run.address), frames});
  }
  void give(const FrameRun& run) {
    kernel.write(address(run.first), run.frames);
    arena.give(address(run.first), run.frames);
  }

  void finish() {
    const int stalled = model_stalled();
    bool owned[kFrames] = {};
    for (auto& each : runs)
      each.each([&](const FrameRun& run) {
        for (u32 f = run.first; f < run.first + run.frames; ++f) {
          model_check(!owned[f] && !idle[f / kChunkFrames][f % kChunkFrames], "a frame has one owner");
          owned[f] = true;
        }
      });
    u32 lost = 0, free = 0;
    for (u32 c = 0; c < count; ++c) {
      const u64 word = arena.used_word(c);
      model_observe(word);
      model_observe(arena.dirty_word(c));
      for (u32 f = 0; f < kChunkFrames; ++f) {
        const bool used = (word >> f & 1) != 0;
        const bool of_somebody = owned[c * kChunkFrames + f] || idle[c][f];
        model_check(used || !of_somebody, "what somebody owns is not free");
        lost += used && !of_somebody;
        free += !used;
      }
    }
    for (auto& each : runs) each.each([](const FrameRun& run) { model_observe(run.first * 1000 + run.frames); });
    model_check(lost <= (stalled < 0 ? 0 : in_hand[stalled]), "no frame is lost but what a stopped thread has in hand");
    kernel.most_committed = ~std::size_t{0};
    const u32 hidden = free - found();
    if (stalled < 0) model_check(hidden == 0, "a search finds every free frame");
    if (hidden != 0) find_hidden();
  }

  // Takes single frames until there are none; how many.
  u32 found() {
    u32 frames = 0;
    while (const Run run = arena.take(1, 1)) {
      kernel.write_fresh(run.address, 1, run.dirty);
      ++frames;
    }
    return frames;
  }

  void find_hidden() {
    u32 chunk = count;
    for (u32 c = 0; c < count; ++c) {
      if (~arena.used_word(c) == 0) continue;
      model_check(chunk == count, "free frames that a search does not find are in one chunk");
      chunk = c;
    }
    const u32 taken = lowest_bit(arena.used_word(chunk));
    arena.give(address(chunk * kChunkFrames + taken), 1);
    while (arena.take(1, 1)) continue;
    for (u32 c = 0; c < count; ++c)
      model_check(~arena.used_word(c) == 0, "all are found once a frame is given back in that chunk");
  }
};

constexpr u64 kAll = ~u64{0};
constexpr u64 kTopTwo = u64{3} << 62;

Scenario scenario(const char* name, const ArenaScript& script) {
  std::string full = name;
  for (int id = 0; id < 3; ++id)
    if (*script.thread[id] != 0) full += (id == 0 ? ": " : " | ") + std::string(script.thread[id]);
  return {full, program_type<ArenaProgram>(script)};
}

std::vector<Scenario> one_chunk() {
  return {
      scenario("one frame is free", {{1 << 5}, {}, {}, {"t1g", "t1g", ""}}),
      scenario("one dirty frame is free", {{1 << 5}, {1 << 5}, {}, {"t1g", "t1", "t1"}}),
      scenario("three frames are free", {{7}, {1}, {}, {"t2", "t1g", "t1"}}),
      scenario("two long runs of three do not fit", {{7}, {}, {}, {"t2g", "t2g", ""}}),
      scenario("aligned runs", {{0x3e}, {}, {}, {"a2g", "t1a2", ""}}),
      scenario("given and taken, dirty and not", {{6}, {2}, {{0, 1}}, {"gt2", "t1g", ""}}),
      scenario("given as zeros, taken, given, taken", {{0}, {1}, {{0, 1}}, {"z", "t1gt1", ""}}),
      scenario("given as zeros and as dirty, purged", {{2}, {2}, {{0, 1}, {2, 1}}, {"z", "g", "p"}}),
      scenario("taken and purged", {{3}, {3}, {}, {"t1g", "p", ""}}),
      scenario("given and purged", {{2}, {2}, {{0, 1}, {2, 1}}, {"g", "g", "p"}}),
      scenario("purged by two", {{5}, {5}, {}, {"p", "p", ""}}),
      scenario("purged by two and taken", {{1}, {1}, {}, {"p", "p", "t1"}}),
      scenario("given and taken at once, purged", {{0}, {0}, {{0, 1}}, {"g", "t1g", "p"}}),
      scenario("the frames behind are wanted by two", {{2}, {2}, {{0, 1}}, {"e1", "t1g", ""}}),
      scenario("a run grows over what is purged", {{6}, {6}, {{0, 1}}, {"e2g", "p", ""}}),
      scenario("a run is cut while others look for frames", {{0}, {0}, {{0, 3}}, {"h", "t1", "t1"}}),
      scenario("a run is cut and grows", {{0x10}, {}, {{0, 3}, {3, 1}}, {"he1", "gt2", ""}}),
  };
}

std::vector<Scenario> over_chunks() {
  return {
      scenario("across the end of a chunk", {{kTopTwo, 3}, {0, 1}, {}, {"t3g", "t1g", ""}}),
      scenario("two across the end of a chunk", {{kTopTwo, 3}, {}, {}, {"t4", "t4", ""}}),
      scenario("across the end, one behind it, one before it",
               {{kTopTwo, 3}, {}, {{0, 0}, {66, 1}}, {"t3", "g", "t1"}}),
      scenario("longer than a chunk, and one more", {{kTopTwo, kAll}, {}, {}, {"t66", "t1", ""}}),
      scenario("longer than a chunk, blocked at its end", {{kTopTwo, kAll, 1}, {0, 0, 1}, {}, {"t67g", "t64", ""}}),
      scenario("two longer than a chunk", {{kTopTwo, kAll, kAll}, {}, {}, {"t66", "t66", ""}}),
      scenario("two longer than a chunk, one given", {{kTopTwo, kAll, 3}, {}, {}, {"t66g", "t66", ""}}),
      scenario("a long run is given, part is purged", {{}, {}, {{62, 66}}, {"g", "t1", "p"}}),
      scenario("a long run at a multiple of 64", {{kTopTwo, kAll, kAll}, {}, {}, {"a128", "t1", ""}}),
      scenario("a run grows into the next chunk", {{0, 3}, {0, 1}, {{63, 1}}, {"e2g", "t1g", ""}}),
  };
}

// The hint where to search goes over chunks that are full and comes back when a frame is given.
std::vector<Scenario> hints() {
  return {
      scenario("a frame is given while its chunk is given up on", {{0, 1}, {}, {{0, 0}, {7, 1}}, {"t1", "g", ""}}),
      scenario("the same, two search", {{0, 0, 1}, {}, {{0, 0}, {0, 0}, {7, 1}}, {"t1", "t1", "g"}}),
      scenario("frames of two chunks are given", {{0, 0, 1}, {}, {{0, 0}, {64, 1}, {0, 1}}, {"t1", "g", "g"}}),
      scenario("given, taken again, given", {{0, 1}, {}, {{0, 0}, {7, 1}}, {"t1", "gt1g", ""}}),
      scenario("a chunk is full because of a purge", {{1, 0}, {1, 0}, {}, {"p", "t1", ""}}),
      scenario("a long run is given over chunks that were full", {{0, 0, 1}, {}, {{62, 66}}, {"g", "t1", ""}}),
  };
}

std::vector<Scenario> commits() {
  const std::size_t none = 0, frames = 2 * kFrameSize;
  return {
      scenario("memory is made accessible by two", {{0, 7}, {}, {}, {"t1", "t1", ""}, 1}),
      scenario("made accessible, given, taken", {{0, 3}, {}, {}, {"t1g", "t2", ""}, 1}),
      scenario("made accessible with a longer run", {{kTopTwo, 7}, {}, {}, {"t4g", "t1", ""}, 1}),
      scenario("memory is refused", {{0, 3}, {}, {}, {"t1", "t2", ""}, 1, none}),
      scenario("memory is refused to a long run only", {{kTopTwo, kAll}, {}, {}, {"t66", "t1", ""}, 1, frames}),
  };
}

std::vector<Scenario> long_scripts() {
  return {
      scenario("all kinds",
               {{0xff, 0xf0, 3}, {0xf, 0xf0, 0}, {{8, 4}, {126, 2}}, {"t3gpt2ht1g", "gt4gt1ge2g", "pt2gt70gpt1"}}),
      scenario("hardly any frames", {{1, 0, 1}, {1, 0, 0}, {{63, 2}, {70, 1}}, {"t1gt1gt2g", "gt1t1gg", "t1pt2gt1g"}}),
      scenario("long runs", {{kTopTwo, kAll, 0xfff}, {kTopTwo, 0, 3}, {}, {"t66gt70g", "t67gpt66g", "t4gt64gt2g"}}),
      scenario("memory is refused now and then",
               {{0xff, 0, 0xf}, {}, {}, {"t4t3gg", "t2t4gg", "t8gt3g"}, 1, 4 * kFrameSize}),
  };
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all;
  for (auto* some : {&one_chunk, &over_chunks, &hints, &commits})
    for (Scenario& each : some()) all.push_back(each);
  return all;
}

// The small ones of them, or all, with each thread stopped for ever at each operation.
std::vector<Scenario> with_stalls(bool all) {
  std::vector<Scenario> scenarios;
  for (Scenario& each : all_scenarios()) {
    if (!all && !explore_program(each.program, {.max_executions = 400}).exhausted) continue;
    each.stalls = true;
    scenarios.push_back(each);
  }
  return scenarios;
}

TEST(PagesArenaModel, NoFrameHasTwoOwnersAndNoneIsLost) { expect_hold(one_chunk()); }
TEST(PagesArenaModel, RunsOverChunksAreTakenWholeOrNotAtAll) { expect_hold(over_chunks()); }
TEST(PagesArenaModel, EveryFreeFrameIsFound) { expect_hold(hints()); }
TEST(PagesArenaModel, WhatIsTakenIsAccessible) { expect_hold(commits()); }
TEST(PagesArenaModel, OthersFinishWhenAThreadStopsForEver) { expect_hold(with_stalls(false)); }
TEST(PagesArenaModel, ReductionsSeeAllOutcomes) { expect_reductions_see_all(all_scenarios(), 6); }
TEST(PagesArenaModel, RandomWalksThroughLongScripts) { expect_hold(walked(long_scripts(), 2000)); }
// Left to the long tests.
TEST(PagesArenaModel, DISABLED_ManyRandomWalks) { expect_hold(walked(long_scripts(), 100'000)); }
TEST(PagesArenaModel, DISABLED_OthersFinishInAllScenarios) { expect_hold(with_stalls(true)); }

// Planted faults. The first two are what the code did once: the frames of a chunk could stay hidden.
TEST(PagesArenaMutants, AHintMovedWhileAFrameIsGivenIsCaught) { expect_mutant_caught(hints(), "hint moved for good"); }
TEST(PagesArenaMutants, AHintMovedOnByAnotherIsCaught) {
  expect_caught(hints(), "hint moved back once", [](Options& options) {
    options.mutant = "hint moved back once";
    options.memory = MemoryModel::kSequential;
  });
}
TEST(PagesArenaMutants, GivingBeforeMarkingDirtyIsCaught) {
  expect_mutant_caught(all_scenarios(), "given before it is dirty");
}
TEST(PagesArenaMutants, GivingZerosBeforeTheyAreCleanIsCaught) {
  expect_mutant_caught(all_scenarios(), "zeros given too early");
}
TEST(PagesArenaMutants, GivingAPurgedRunBeforeItIsCleanIsCaught) {
  expect_mutant_caught(all_scenarios(), "given before it is clean");
}
TEST(PagesArenaMutants, PurgingWithoutOwningIsCaught) {
  expect_mutant_caught(all_scenarios(), "purged without owning");
}
TEST(PagesArenaMutants, ClaimingWhatIsUsedIsCaught) { expect_mutant_caught(all_scenarios(), "claimed unseen"); }
TEST(PagesArenaMutants, KeepingPartOfARunThatWasNotHadIsCaught) {
  expect_mutant_caught(all_scenarios(), "no roll back");
}
TEST(PagesArenaMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(all_scenarios(), "pages/arena.h"); }

}  // namespace
}  // namespace freeway::model
