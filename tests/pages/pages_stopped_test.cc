// SPDX-License-Identifier: MIT
//
// Arenas, frames, the map and large blocks, when another thread does something before each store, in turn, of an
// operation, and when the thread ends for ever there: no frame has two owners, none is lost but those in the hands of
// who ended, and free frames that are said to be zero are.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/pages/large_world.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

constexpr std::size_t kChunks = 2;
constexpr std::size_t kFurther = 8 * kMiB;  // further arenas are so small that a few operations need several
constexpr u64 kNow = 1'000'000'000;

// The same state each time: blocks side by side, free frames that are dirty, free frames that are zero.
class Scene {
 public:
  Scene() {
    kernel().reset();
    kernel().refuse_over(kFurther);
    world_ = std::make_unique<LargeWorld>(kChunks);
    take(20);
    take(30);
    take(10);
    take(4);  // the first chunk is full
    take(40);
    give(1);  // 30 dirty frames, more dirty than the policy would keep
    give(3);
  }

  // --- Operations; blocks are named by their order of birth. ---
  void take(std::size_t frames, std::size_t alignment = 1) {
    const auto block = world_->large.take(frames * kFrameSize, alignment * kFrameSize);
    if (block.address == 0) {
      ++refused;
      return;
    }
    ASSERT_EQ(block.address % (alignment * kFrameSize), 0u);
    if (block.zero) { ASSERT_TRUE(is_zero(block.address, frames * kFrameSize)) << "it was said to be zero"; }
    mark(block.address, 0, frames);
    blocks_.push_back({block.address, frames});
  }
  void give(std::size_t n) {
    const Block block = blocks_[n];
    check_marks(block);
    blocks_[n] = {};
    ASSERT_TRUE(world_->large.give(block.address, world_->map.get(block.address), kNow));
  }
  void resize(std::size_t n, std::size_t frames) {
    const Block block = blocks_[n];
    const FrameInfo info = world_->map.get(block.address);
    check_marks(block);
    if (!world_->large.resize(block.address, info, frames * kFrameSize, kNow)) return;
    blocks_[n].frames = frames;
    if (frames > block.frames) mark(block.address, block.frames, frames);
  }
  void purge(std::size_t target) { world_->frames.purge_to(target); }

  // --- What must be true, when nobody moves. `lost`: frames that somebody who ended may have had in hand. ---
  void check(std::size_t lost) {
    std::map<uptr, std::size_t> owned;  // first frame -> frames
    std::size_t live = 0, used = 0, dirty = 0;
    for (const Block& block : blocks_) {
      if (block.address == 0) continue;
      check_marks(block);
      ASSERT_EQ(world_->map.get(block.address).value(), block.frames);
      owned[block.address] = block.frames;
      live += block.frames;
    }
    world_->frames.each_arena([&](Arena<TestEnv>& arena) {
      for (std::size_t f = 0; f < arena.chunk_count() * kChunkFrames; ++f) {
        const bool is_used = (arena.used_word(f / 64) >> (f % 64) & 1) != 0;
        const bool is_dirty = (arena.dirty_word(f / 64) >> (f % 64) & 1) != 0;
        const uptr address = arena.base() + f * kFrameSize;
        used += is_used;
        dirty += is_dirty && !is_used;
        if (is_used) continue;
        auto at = owned.upper_bound(address);
        if (at != owned.begin()) {
          EXPECT_GE(address, std::prev(at)->first + std::prev(at)->second * kFrameSize) << "free, and a block's";
        }
        if (!is_dirty && f * kFrameSize < arena.committed()) {
          EXPECT_TRUE(is_zero(address, 64)) << "free, and said to be zero";
        }
      }
      return true;
    });
    ASSERT_GE(used, live) << "a frame with two owners";
    ASSERT_LE(used, live + lost) << "a frame is lost";
    if (lost > 0) return;
    ASSERT_EQ(world_->frames.policy().live(), live);
    ASSERT_EQ(world_->frames.policy().dirty(), dirty);
  }
  // Gives back all that is free; nothing that has memory may be left.
  void check_purged() {
    purge(0);
    world_->frames.each_arena([&](Arena<TestEnv>& arena) {
      for (std::size_t c = 0; c < arena.chunk_count(); ++c)
        EXPECT_EQ(arena.dirty_word(c) & ~arena.used_word(c), 0u) << "chunk " << c;
      return true;
    });
  }
  // Goes on: fills what is free, and takes more.
  void go_on() {
    for (int i = 0; i < 6; ++i) take(9);
    take(70);
    purge(0);
  }
  // Somebody ended while he resized this block: who knows how long it is.
  void forget(std::size_t n) { blocks_[n] = {}; }
  int refused = 0;

 private:
  struct Block {
    uptr address = 0;
    std::size_t frames = 0;
  };
  static void mark(uptr block, std::size_t from, std::size_t to) {
    for (std::size_t f = from; f < to; ++f) *reinterpret_cast<u64*>(block + f * kFrameSize) = block + f;
  }
  static void check_marks(const Block& block) {
    for (std::size_t f = 0; f < block.frames; ++f)
      ASSERT_EQ(*reinterpret_cast<u64*>(block.address + f * kFrameSize), block.address + f) << "somebody wrote to it";
  }

  std::unique_ptr<LargeWorld> world_;
  std::vector<Block> blocks_;
};

struct Operation {
  const char* name;
  std::size_t frames;  // in hand at most
  std::function<void(Scene&)> run;
};

// Each works on other blocks than its partner in the other list: no two threads own the same block.
const Operation kFirst[] = {{"take 5", 5, [](Scene& s) { s.take(5); }},
                            {"take 60", 60, [](Scene& s) { s.take(60); }},
                            {"take 70", 70, [](Scene& s) { s.take(70); }},
                            {"take 100", 100, [](Scene& s) { s.take(100); }},
                            {"take 4 aligned", 4, [](Scene& s) { s.take(4, 8); }},
                            {"give 20", 20, [](Scene& s) { s.give(0); }},
                            {"grow", 45, [](Scene& s) { s.resize(0, 45); }},
                            {"shrink", 20, [](Scene& s) { s.resize(0, 3); }},
                            {"purge", 64, [](Scene& s) { s.purge(0); }},
                            {"purge some", 64, [](Scene& s) { s.purge(20); }}};
const Operation kSecond[] = {{"take 5", 5, [](Scene& s) { s.take(5); }},
                             {"take 27", 27, [](Scene& s) { s.take(27); }},
                             {"take 90", 90, [](Scene& s) { s.take(90); }},
                             {"take and give", 0, [](Scene& s) { s.take(12), s.give(5); }},
                             {"give 10", 0, [](Scene& s) { s.give(2); }},
                             {"grow", 0, [](Scene& s) { s.resize(2, 14); }},
                             {"give all", 0, [](Scene& s) { s.give(2), s.give(4), s.purge(0); }},
                             {"purge", 0, [](Scene& s) { s.purge(0); }},
                             {"a lot", 0, [](Scene& s) { s.go_on(); }}};

// Calls f(scene, whether there was an interruption) after each operation with another one before each of its stores.
template <class F> void each_interruption(F&& f) {
  u64 interruptions = 0;
  for (const Operation& first : kFirst)
    for (const Operation& second : kSecond) {
      const bool names_new_block = std::string(second.name) == "take and give";
      if (names_new_block && std::string(first.name).starts_with("take")) continue;  // which block is the sixth?
      for (u64 stores = 0;; ++stores) {
        Scene scene;
        const bool between = interrupted_before_store(stores, [&] { first.run(scene); }, [&] { second.run(scene); });
        f(scene);
        ASSERT_EQ(scene.refused, 0);
        if (testing::Test::HasFailure())
          FAIL() << first.name << ", and before store " << stores << " another: " << second.name;
        if (!between) break;
        ++interruptions;
      }
    }
  EXPECT_GT(interruptions, 500u);
  proof("stops and kills", "overtaken before each store: frames and large blocks", "stops", interruptions);
  kernel().reset();
}

TEST(PagesInterrupted, WhateverAnotherThreadDoesInBetweenFramesAddUp) {
  each_interruption([](Scene& scene) {
    scene.check(0);
    scene.go_on();
    scene.check(0);
  });
}

TEST(PagesInterrupted, WhateverAnotherThreadDoesInBetweenAllThatIsFreeCanBeGivenBack) {
  each_interruption([](Scene& scene) {
    scene.check_purged();
    scene.check(0);
  });
}

// The search begins at a hint, which must not stay above a free frame, or that frame is never found again.
TEST(ArenaInterrupted, AFrameThatIsFreedWhileItsChunkIsGivenUpOnIsFound) {
  for (std::size_t freed = 0; freed < kChunkFrames; freed += 21)
    for (u64 stores = 0;; ++stores) {
      kernel().reset();
      const uptr base = kernel().reserve(3 * kChunkSize, kChunkSize);
      std::vector<Chunk<TestEnv>> chunks(3);
      Arena<TestEnv> arena;
      arena.init({base, true}, 3 * kChunkSize, chunks.data());
      for (unsigned i = 0; i < kChunkFrames; ++i) arena.take(1, 1);
      const bool between = interrupted_before_store(
          stores, [&] { ASSERT_TRUE(arena.take(1, 1)); }, [&] { arena.give(base + freed * kFrameSize, 1); });
      std::size_t left = 0;
      while (arena.take(1, 1)) ++left;
      ASSERT_EQ(left, 2 * kChunkFrames - 1 + between) << "freed before store " << stores;
      if (!between) break;
    }
  kernel().reset();
}

// The same when a third thread moves the hint on in between: going back must not depend on where it is by now.
TEST(ArenaInterrupted, AFrameThatIsFreedWhileTwoThreadsMoveTheHintIsFound) {
  for (u64 stores = 0;; ++stores) {
    kernel().reset();
    const uptr base = kernel().reserve(3 * kChunkSize, kChunkSize);
    std::vector<Chunk<TestEnv>> chunks(3);
    Arena<TestEnv> arena;
    arena.init({base, true}, 3 * kChunkSize, chunks.data());
    arena.take(2 * kChunkFrames, 1);  // no search has gone over these two chunks yet
    TestEnv::at_step("arena.hint", [&] { ASSERT_TRUE(arena.take(1, 1)); });
    const bool between =
        interrupted_before_store(stores, [&] { ASSERT_TRUE(arena.take(1, 1)); }, [&] { arena.give(base, 1); });
    EXPECT_FALSE(TestEnv::step_left());
    std::size_t left = 0;
    while (arena.take(1, 1)) ++left;
    ASSERT_EQ(left, kChunkFrames - 2 + between) << "freed before store " << stores;
    if (!between) break;
  }
  kernel().reset();
}

TEST(PagesStopped, WhoEndsAnywhereLosesWhatIsInHisHands) {
  for (const Operation& operation : kFirst)
    for (u64 stores = 0;; ++stores) {
      Scene scene;
      if (!ended_before_store(stores, [&] { operation.run(scene); })) {
        EXPECT_GT(stores, 2u) << operation.name;
        proof("stops and kills", "ended before each store: frames and large blocks", "stops", stores);
        break;
      }
      if (std::string(operation.name) == "grow" || std::string(operation.name) == "shrink") scene.forget(0);
      scene.check(operation.frames);
      scene.go_on();
      scene.check(operation.frames);
      if (testing::Test::HasFatalFailure()) FAIL() << operation.name << ", ended before store " << stores;
      ASSERT_EQ(scene.refused, 0);
    }
  kernel().reset();
}

}  // namespace
}  // namespace freeway::test
