// SPDX-License-Identifier: MIT
// pages_large_model.cc: src/pages/large.h in all executions of small programs: blocks are made, resized, moved and
// freed, by their owners and twice, as runs of frames and as mappings of their own.
//
// World     one chunk of the primary arena; places for mappings, lowest first, so that addresses come back at once; a
//           kernel that may refuse to end or to move a mapping (each call is tried both ways)
// Guards    where blocks have them (pages/guarded_ends.h) a page is a frame: t2 takes three
// Scripts   t<n> take a block of n frames     g free the oldest     r<n> resize the oldest to n frames     m<n> move it
//           d free the block that all know     R<n> resize that one     M<n> move it
//           in the setup also: A B give the newest block to that thread     S let all know it
// Promises  a block has one owner, is zero where it is said to be, and is described by its own entry and no other; a
//           block is freed once; its guard is closed, and no other frame that somebody has, or may take, is; at the end
//           nothing is described that nobody owns, no frame and no mapping is lost, and counts are exact. With a thread
//           stopped for ever: its block is lost, moving also the new place, and mappings in hand that the kernel would
//           not end
// Bounds    2 or 3 threads, 1 to 3 calls each; weak memory but where a scenario says otherwise, no other bound
#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

#include "pages/large.h"
#include "tests/explorer/scenarios.h"
#include "tests/pages/pages_world.h"

namespace freeway::model {
namespace {

constexpr u64 kNow = 1'000'000'000;
using Map = PageMap<PagesEnv>;

// The same in every execution: the explorer keeps the values.
Map the_map;
Map::Entry the_leaf[std::size_t{1} << Map::kLeafBits];

struct LargeScript {
  std::size_t huge_from;
  const char* setup;
  const char* thread[3];
  bool may_refuse = false;
  std::size_t lift_from = LargeBlocks<PagesEnv>::kLiftFrames;
  bool guarded = false;  // each block ends with a closed page, which is a frame here
};

struct Block {
  uptr address;
  u32 frames;
};

struct LargeProgram {
  static constexpr int kThreads = 3;

  LargeScript script;
  PagesKernel kernel;
  Chunk<PagesEnv> chunk;
  Map::Entry infos[kChunkFrames];
  FurtherArenas<PagesEnv> further;
  Frames<PagesEnv> frames;
  LargeBlocks<PagesEnv> large;
  Block shared = {};
  u32 frees = 0;  // of the shared block
  Belongings<Block> blocks[kThreads + 1];
  bool in_call[kThreads + 1] = {};

  explicit LargeProgram(const LargeScript& s) : script(s) {
    PagesEnv::kernel = &kernel;
    PagesKernel::back_places();
    model_name(chunk, "chunk");
    model_name(infos, "entry");
    model_name(frames, "frames");
    model_name(further, "further");
    model_name(large, "large");
    model_name(&the_map, sizeof the_map, "map");
    model_name(the_leaf, "leaf");
    kernel.pool_bytes = Map::kLeafBytes;
    kernel.pool[0] = reinterpret_cast<uptr>(the_leaf);
    kernel.fresh = [](uptr) {};
    kernel.frames_in_place = 3;
    kernel.most_reserved = 16 * kFrameSize;  // no further arenas
    frames.init({PagesKernel::kArena, true}, kChunkSize, &chunk, further);
    const Run all = frames.primary().take(kChunkFrames, 1);
    frames.primary().give(all.address, kChunkFrames);
    chunk.dirty.store_relaxed(0);
    the_map.init(PagesKernel::kArena, kChunkFrames, nullptr, infos);
    the_map.set(PagesKernel::kPlaces, 1, FrameInfo{}, 0);  // the leaf is there
    large.init(&frames, &the_map, script.huge_from, script.lift_from);
    if (script.guarded) large.guard_ends(kFrameSize);
    kernel.closes_pages = script.guarded;
    follow(script.setup, kThreads);
    kernel.settle();
    kernel.may_refuse_releases = kernel.may_refuse_moves = script.may_refuse;
  }

  void thread(int id) { follow(script.thread[id], id); }
  void follow(const char* moves, int id) {
    each_move(moves, [&](Move move) {
      in_call[id] = true;
      act(move, blocks[id]);
      in_call[id] = false;
    });
  }

  // A block's frames without the one that is closed.
  static u32 length(FrameInfo info) { return static_cast<u32>(info.frames()) - u32{info.is_guarded()}; }
  u32 guards() const { return script.guarded ? 1 : 0; }
  void check_ends(const Block& block) {
    if (!script.guarded) return;
    model_check(kernel.is_open(block.address, block.frames * kFrameSize), "all of a block can be used");
    model_check(!kernel.is_open(block.address + block.frames * kFrameSize, kFrameSize), "but its guard");
  }

  FrameInfo info_of(const Block& block) const {
    const FrameInfo info = the_map.get(block.address);
    model_check(info.kind() == FrameInfo::kLarge || info.kind() == FrameInfo::kHuge, "a block has an entry");
    model_check(length(info) == block.frames, "a block's entry is its own");
    return info;
  }

  void act(Move move, Belongings<Block>& mine) {
    const std::size_t bytes = move.number * kFrameSize;
    switch (move.letter) {
      case 't':
        if (const auto block = large.take(bytes, 16); block.address != 0) {
          kernel.fill(block.address, move.number, block.zero ? 0 : move.number);
          mine.add({block.address, move.number});
          info_of(mine.newest());
          check_ends(mine.newest());
        }
        break;
      case 'g':
        if (mine.any()) {
          const Block block = mine.remove();
          kernel.write(block.address, block.frames);
          model_check(large.give(block.address, info_of(block), kNow), "an owner can free his block");
        }
        break;
      case 'r':
        if (mine.any()) {
          Block& block = mine.oldest();
          const u32 old_frames = block.frames;
          const FrameInfo info = info_of(block);
          const Block before = mine.remove();  // it is in nobody's hands meanwhile
          const bool done = large.resize(before.address, info, bytes, kNow);
          const u32 now = done ? length(the_map.get(before.address)) : old_frames;
          model_check(!done || now == move.number || (now == old_frames && now > move.number), "it has the new length");
          kernel.write(before.address, now);
          mine.add({before.address, now});
          check_ends(mine.newest());
        }
        break;
      case 'm':
        if (mine.any()) {
          const FrameInfo info = info_of(mine.oldest());
          const Block block = mine.remove();
          const uptr target = large.move(block.address, info, bytes, kNow);
          mine.add(target == 0 ? block : Block{target, move.number});
          kernel.each_frame(mine.newest().address, block.frames * kFrameSize,
                            [](auto& content) { model_check(content.get() != 0, "contents are where the block is"); });
          kernel.write(mine.newest().address, mine.newest().frames);
          check_ends(mine.newest());
        }
        break;
      case 'd':
        if (const FrameInfo info = the_map.get(shared.address); info.kind() != FrameInfo::kNothing)
          if (large.give(shared.address, info, kNow)) model_check(++frees == 1, "a block is freed once");
        break;
      case 'R':
        if (const FrameInfo info = the_map.get(shared.address); info.kind() != FrameInfo::kNothing)
          large.resize(shared.address, info, bytes, kNow);
        break;
      case 'M':
        if (const FrameInfo info = the_map.get(shared.address); info.kind() != FrameInfo::kNothing)
          if (const uptr target = large.move(shared.address, info, bytes, kNow)) {
            model_check(++frees == 1, "a block is freed or moved, once");
            mine.add({target, move.number});
          }
        break;
      case 'A': blocks[0].add(mine.remove_newest()); break;
      case 'B': blocks[1].add(mine.remove_newest()); break;
      case 'S': shared = mine.remove_newest(); break;
      default: model_check(false, "a letter that means something");
    }
  }

  void finish() {
    const int stalled = model_stalled();
    const bool lossy = stalled >= 0 && in_call[stalled];
    kernel.may_refuse_releases = kernel.may_refuse_moves = false;
    large.release_kept();
    u64 owned_frames = 0, owned_places = 0, huge = 0, heads = 0;
    auto own = [&](const Block& block) {
      const bool is_huge = info_of(block).kind() == FrameInfo::kHuge;
      model_observe(block.address + block.frames);
      if (is_huge) {
        const u64 place = u64{1} << ((block.address - PagesKernel::kPlaces) / PagesKernel::kSlotBytes);
        model_check((owned_places & place) == 0, "a place has one owner");
        owned_places |= place;
        huge += block.frames + guards();
        return;
      }
      const unsigned first = static_cast<unsigned>((block.address - PagesKernel::kArena) / kFrameSize);
      const u64 run = chunk_word::run_mask(first, block.frames + guards());
      model_check((owned_frames & run) == 0, "a frame has one owner");
      owned_frames |= run;
      heads |= u64{1} << first;
    };
    for (auto& each : blocks) each.each(own);
    if (shared.address != 0 && frees == 0 && the_map.get(shared.address).kind() != FrameInfo::kNothing) {
      shared.frames = length(the_map.get(shared.address));
      own(shared);
    }
    const u64 used = chunk.used.load_relaxed(), places = kernel.places_taken();
    for (unsigned f = 0; script.guarded && f < kChunkFrames; ++f)
      if ((used >> f & 1) == 0)
        model_check(kernel.is_open(PagesKernel::kArena + f * kFrameSize, kFrameSize), "what is free can be used");
    model_check((owned_frames & ~used) == 0 && (owned_places & ~places) == 0, "what somebody owns is not free");
    model_check(lossy || used == owned_frames, "no frame is lost");
    model_check(popcount(places & ~owned_places) <= (lossy ? 2 : 0), "no mapping is lost");
    for (unsigned f = 0; f < kChunkFrames; ++f)
      if ((heads >> f & 1) == 0) {
        const bool described = the_map.get(PagesKernel::kArena + f * kFrameSize).bits != 0;
        model_check(!described || (lossy && (used >> f & 1) != 0), "nothing is described that nobody owns");
      }
    for (unsigned n = 0; n < PagesKernel::kSlots; ++n)
      if ((owned_places >> n & 1) == 0) {
        const bool described = the_map.get(PagesKernel::kPlaces + n * PagesKernel::kSlotBytes).bits != 0;
        model_check(!described || (lossy && (places >> n & 1) != 0), "no place is described that nobody owns");
      }
    if (lossy) return;
    model_check(large.huge_bytes() == huge * kFrameSize && large.huge_count() == popcount(owned_places),
                "what is huge is counted");
    model_check(frames.policy().live() == popcount(used), "what is live is counted");
  }
};

constexpr std::size_t kRuns = LargeBlocks<PagesEnv>::kHugeFrames;  // all blocks are runs
constexpr std::size_t kHuge = 2;                                   // from two frames on they are mappings

Scenario scenario(const char* name, const LargeScript& script, MemoryModel memory = MemoryModel::kWeak) {
  std::string full = name;
  for (int id = 0; id < 3; ++id)
    if (*script.thread[id] != 0) full += (id == 0 ? ": " : " | ") + std::string(script.thread[id]);
  return {full, program_type<LargeProgram>(script), {.memory = memory}};
}

std::vector<Scenario> mappings() {
  return {
      scenario("mapped and freed", {kHuge, "", {"t2g", "t2", ""}}),
      scenario("freed, and the place is taken again", {kHuge, "t2A", {"g", "t3", ""}}),
      scenario("freed by two, taken by a third", {kHuge, "t2At2B", {"g", "g", "t2"}}),
      scenario("resized where it is", {kHuge, "t2A", {"r3g", "t2", ""}}),
      scenario("resized, which the kernel refuses", {kHuge, "t2A", {"r5g", "t2", ""}}),
      scenario("moved, and the old place is taken", {kHuge, "t2A", {"m3", "t2", ""}}),
      scenario("moved and freed", {kHuge, "t2A", {"m3g", "t2", ""}}),
      scenario("moved by two", {kHuge, "t2At2B", {"m4", "m5", ""}}),
      scenario("freed twice", {kHuge, "t2S", {"d", "d", ""}}),
      scenario("freed by three at once", {kHuge, "t2S", {"d", "d", "d"}}),
  };
}

std::vector<Scenario> refusals() {
  return {
      scenario("a move may be refused", {kHuge, "t2A", {"m3", "t2", ""}, true}),
      scenario("moves may be refused to two", {kHuge, "t2At2B", {"m3", "m3", ""}, true}),
      scenario("mappings that may not end", {kHuge, "t2At2B", {"g", "g", ""}, true}),
      scenario("a mapping that may not end, another is made", {kHuge, "t2A", {"g", "t2", ""}, true}),
  };
}

std::vector<Scenario> runs() {
  return {
      scenario("a run is freed and its frames are taken", {kRuns, "t2A", {"g", "t1", ""}}),
      scenario("a run grows, the frames behind are wanted", {kRuns, "t1A", {"r2", "t1", ""}}),
      scenario("a run is cut, its end is wanted", {kRuns, "t60t3A", {"r1", "t2", ""}}),
      scenario("freed twice", {kRuns, "t2S", {"d", "d", ""}}),
      scenario("freed and cut", {kRuns, "t2S", {"d", "R1", ""}}),
  };
}

constexpr std::size_t kLift = 2;
std::vector<Scenario> lifts() {
  return {
      scenario("lifted, and its frames are taken", {kRuns, "t2A", {"m3", "t2", ""}, false, kLift}),
      scenario("lifted and freed, and its frames are taken", {kRuns, "t2A", {"m3g", "t2", ""}, false, kLift}),
      scenario("lifted, and moved since it has no room", {kRuns, "t2A", {"m5", "t2", ""}, false, kLift}),
      scenario("lifted and freed by another", {kRuns, "t2S", {"M3", "d", ""}, false, kLift}),
      scenario("lifted by two, the same block", {kRuns, "t2S", {"M3", "M3", ""}, false, kLift}),
      scenario("a lift that may be refused", {kRuns, "t2A", {"m3", "t2", ""}, true, kLift}),
      scenario("a lift that may have to come back", {kRuns, "t2A", {"m5", "t2", ""}, true, kLift}),
  };
}

// With guards: a script's lengths are without them.
Scenario guarded(const char* name, LargeScript script) {
  script.guarded = true;
  return scenario(name, script);
}
std::vector<Scenario> guarded_runs() {
  return {
      guarded("a guarded run is freed and its frames are taken", {kRuns, "t2A", {"g", "t1", ""}}),
      guarded("a guarded run is freed and a longer one wants its frames", {kRuns, "t1A", {"g", "t2", ""}}),
      guarded("a guarded run grows, the frames behind are wanted", {kRuns, "t1A", {"r2", "t1", ""}}),
      guarded("a guarded run is cut, its end is wanted", {kRuns, "t58t3A", {"r1", "t1", ""}}),
      guarded("a guarded run is freed twice", {kRuns, "t2S", {"d", "d", ""}}),
      guarded("a guarded run is freed and cut", {kRuns, "t2S", {"d", "R1", ""}}),
  };
}
std::vector<Scenario> guarded_mappings() {
  return {
      guarded("a guarded mapping is moved, and the old place is taken", {kHuge, "t2A", {"m3", "t2", ""}}),
      guarded("a guarded mapping is moved, which may be refused", {kHuge, "t2A", {"m3", "t2", ""}, true}),
      guarded("a guarded mapping is resized", {kHuge, "t1A", {"r2g", "t1", ""}}),
      guarded("a guarded run is lifted, and its frames are taken", {kRuns, "t2A", {"m3", "t2", ""}, false, kLift}),
      guarded("a guarded run is lifted, which may be refused", {kRuns, "t2A", {"m5", "t1", ""}, true, kLift}),
  };
}

// Left to the long tests. m5g | m5 | t2 at once, with lifts refused, is not exhausted in an hour; here are parts of it.
std::vector<Scenario> larger() {
  return {
      scenario("freed while it grows", {kRuns, "t2S", {"d", "R3", ""}}),
      scenario("mappings that may not end, another is made", {kHuge, "t2At2B", {"g", "g", "t2g"}, true}),
      scenario("lifted by two", {kRuns, "t2At2B", {"m3", "m3", ""}, false, kLift}),
      scenario("lifts of two that may have to come back", {kRuns, "t2At2B", {"m5", "m5", ""}, true, kLift}),
      scenario("a lift that may have to come back, two take", {kRuns, "t2A", {"m5g", "t2", "t2"}, true, kLift}),
      scenario("a lift that may have to come back, one frees, one takes",
               {kRuns, "t2At2B", {"m5", "g", "t2"}, true, kLift}),
      scenario("moved and freed, which may be refused", {kHuge, "t2At2B", {"m3g", "m3g", ""}, true}),
  };
}

std::vector<Scenario> long_scripts() {
  return {
      scenario("mappings", {kHuge, "t2At2B", {"gt3r2m4g", "m3r2gt2g", "t2m5gt4g"}}),
      scenario("mappings, and refusals", {kHuge, "t2At2B", {"gt3m4g", "m3gt2g", "t2gt4m5g"}, true}),
      scenario("runs", {kRuns, "t20t20t3At2B", {"r5gt4g", "gt3r1g", "t9r8gt2g"}}),
      scenario("lifts", {kRuns, "t2At3B", {"m3gt2m5g", "m5r3gt2g", "t2m4gt3g"}, false, kLift}),
      scenario("lifts, and refusals", {kRuns, "t2At3B", {"m3gt2m5g", "m5r3gt2g", "t2m4gt3g"}, true, kLift}),
      scenario("both", {kHuge, "t1At2B", {"gt1gt2g", "r3gt1gt2", "t2gt1t1g"}, true}),
  };
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = mappings();
  for (auto* some : {&refusals, &runs, &lifts})
    for (Scenario& each : some()) all.push_back(each);
  return all;
}

std::vector<Scenario> with_stalls(std::vector<Scenario> scenarios) {
  for (Scenario& each : scenarios) each.stalls = true;
  return scenarios;
}

TEST(PagesLargeModel, MappingsHaveOneOwnerAndOneEntry) { expect_hold(mappings()); }
TEST(PagesLargeModel, WhatTheKernelRefusesIsNotLost) { expect_hold(refusals()); }
TEST(PagesLargeModel, RunsHaveOneOwnerAndOneEntry) { expect_hold(runs()); }

TEST(PagesLargeModel, WhatIsLiftedHasOneOwnerAndLeavesZeros) { expect_hold(lifts()); }

TEST(PagesLargeModel, GuardsAreWhereBlocksEndAndNowhereElse) {
  expect_hold(guarded_runs());
  expect_hold(guarded_mappings());
}

TEST(PagesLargeModel, OthersFinishWhenAThreadStopsForEver) {
  expect_hold(with_stalls(mappings()));
  expect_hold(with_stalls(refusals()));
  expect_hold(with_stalls(lifts()));
  expect_hold(with_stalls(guarded_mappings()));
}
TEST(PagesLargeModel, ReductionsSeeAllOutcomes) { expect_reductions_see_all(mappings(), 6); }
TEST(PagesLargeModel, RandomWalksThroughLongScripts) { expect_hold(walked(long_scripts(), 2000)); }
TEST(PagesLargeModel, DISABLED_ManyRandomWalks) { expect_hold(walked(long_scripts(), 50'000)); }
TEST(PagesLargeModel, DISABLED_AllHoldsInLargerPrograms) { expect_hold(larger()); }
TEST(PagesLargeModel, DISABLED_OthersFinishWhenAThreadStopsWithARun) {
  expect_hold(with_stalls(runs()));
  expect_hold(with_stalls(guarded_runs()));
}

TEST(PagesLargeMutants, OpeningAPageWhenItIsAnothersIsCaught) {
  expect_mutant_caught(guarded_runs(), "opened too late");
}
TEST(PagesLargeMutants, ResizingWithoutHavingTheBlockInHandIsCaught) {
  expect_mutant_caught(guarded_runs(), "guard moved unowned");
}
TEST(PagesLargeMutants, ClaimingInTwoStepsIsCaught) { expect_mutant_caught(all_scenarios(), "claimed in two steps"); }
TEST(PagesLargeMutants, TakingTheEntryAwayAfterTheMemoryIsCaught) {
  expect_mutant_caught(all_scenarios(), "entry after memory");
}
TEST(PagesLargeMutants, GivingTheFramesBeforeTheMappingHasGrownIsCaught) {
  expect_mutant_caught(lifts(), "frames given too early");
}
TEST(PagesLargeMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(all_scenarios(), "pages/kept_memory.h"); }

}  // namespace
}  // namespace freeway::model
