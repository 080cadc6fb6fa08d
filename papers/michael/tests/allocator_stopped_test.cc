// SPDX-License-Identifier: MIT
//
// A thread that ends for ever before any store or CAS of Figs 4, 6 and 7, or is overtaken there by another that
// allocates and frees: nothing is broken for the others, and what is lost is bounded.
#include "allocator_world.h"
#include "arch/atomic.h"  // tests/support/stoppable: stores at which a test may interfere
#include "tests/support/test_env.h"

namespace freeway::michael {
namespace {

using test::ended_before_store;
using test::interrupted_before_store;
using test::TestEnv;
using TestWorld = World<TestEnv>;

constexpr std::size_t kTwo = kMaxSmallBytes, kFew = 2000, kMany = 8;  // 2, 8, 1023 blocks a superblock

// A state that the heap is in when the operation begins, and the operation.
struct Case {
  const char* name;
  std::size_t bytes;
  u32 held;                // blocks that are live
  std::vector<u32> freed;  // of these, which are free again
  bool frees;              // the operation: free the first one that is left, or malloc
};
const Case kCases[] = {
    {"the first malloc", kTwo, 0, {}, false},
    {"malloc from active", kMany, 5, {}, false},
    {"the last credit", kTwo, 1, {}, false},
    {"the last credit, more free", kMany, 64, {}, false},
    {"malloc from the slot", kTwo, 4, {0}, false},
    {"malloc from the list", kTwo, 6, {0, 2}, false},
    {"malloc from the slot, with credits", kFew, 16, {0, 1, 2}, false},
    {"a new superblock", kTwo, 2, {}, false},
    {"free into active", kMany, 5, {}, true},
    {"free into FULL", kTwo, 4, {}, true},
    {"free into FULL, the slot is taken", kTwo, 6, {2}, true},
    {"free to EMPTY, in the slot", kTwo, 4, {1}, true},
    {"free to EMPTY, in the list", kTwo, 6, {1, 3}, true},
    {"free to EMPTY, in the list, behind two", kTwo, 10, {1, 3, 5, 7}, true},
};

struct Scene {
  explicit Scene(const Form& form, const Case& c) : world(1, form.policy, form.list) {
    for (u32 i = 0; i < c.held; ++i) blocks.push_back(world.malloc(c.bytes));
    for (u32 i : c.freed) {
      EXPECT_TRUE(world.free(blocks[i]));
      blocks[i] = 0;
    }
  }
  void operate(const Case& c) {
    if (!c.frees) {
      blocks.push_back(0);
      blocks.back() = world.malloc(c.bytes);
      return;
    }
    const uptr block = take_first();
    world.free(block);
  }
  uptr take_first() {
    for (uptr& block : blocks)
      if (block != 0) return std::exchange(block, 0);
    return 0;
  }
  void free_all() {
    while (const uptr block = take_first()) EXPECT_TRUE(world.free(block));
  }
  TestWorld world;
  std::vector<uptr> blocks;
};

// The others go on: blocks enough for several superblocks, all different from what is live, and freed again.
void others_go_on(Scene& scene, std::size_t bytes) {
  std::vector<uptr> more;
  for (int i = 0; i < 20; ++i) {
    more.push_back(scene.world.malloc(bytes));
    ASSERT_NE(more.back(), 0u);
    for (uptr block : scene.blocks) ASSERT_NE(block, more.back()) << "handed out twice";
    for (std::size_t j = 0; j + 1 < more.size(); ++j) ASSERT_NE(more[j], more.back()) << "handed out twice";
  }
  for (uptr block : more) ASSERT_TRUE(scene.world.free(block));
}

TEST(MichaelStopped, WhoeverEndsAtAnyStoreTakesOneSuperblockAtMost) {
  for (const Form& form : kForms)
    for (const Case& c : kCases) {
      u64 n = 0;
      for (;; ++n) {
        SCOPED_TRACE(std::string(form.name) + ": " + c.name + ", ended before store " + std::to_string(n));
        Scene scene(form, c);
        if (!ended_before_store(n, [&] { scene.operate(c); })) {
          scene.free_all();
          scene.world.expect_empty();
          break;
        }
        // Who ends in a free owns its block still, or it is freed; who ends in a malloc has none.
        if (!c.frees && !scene.blocks.empty() && scene.blocks.back() == 0) scene.blocks.pop_back();
        others_go_on(scene, c.bytes);
        if (testing::Test::HasFatalFailure()) return;
        scene.free_all();
        scene.world.michael().trim();
        scene.world.michael().trim();
        const Figures left = scene.world.michael().figures([](const char*, uptr) {});
        EXPECT_LE(left.superblocks, 1u) << "a superblock is lost, not more";
        EXPECT_LE(scene.world.os().spans(), 1u + (left.superblocks == 0)) << "and with it a hyperblock";
      }
      EXPECT_GE(n, 2u) << c.name << ": an operation has at least as many stores";
    }
}

TEST(MichaelStopped, WhoeverIsOvertakenAtAnyStoreFinishes) {
  for (const Form& form : kForms)
    for (const Case& c : kCases)
      for (u64 n = 0;; ++n) {
        SCOPED_TRACE(std::string(form.name) + ": " + c.name + ", overtaken before store " + std::to_string(n));
        Scene scene(form, c);
        std::vector<uptr> others;
        const bool was = interrupted_before_store(
            n, [&] { scene.operate(c); },
            [&] {
              for (int i = 0; i < 7; ++i) others.push_back(scene.world.malloc(c.bytes));
              for (std::size_t i = 0; i < others.size(); i += 2) {
                EXPECT_TRUE(scene.world.free(others[i]));
                others[i] = 0;
              }
            });
        for (uptr block : others)
          for (uptr mine : scene.blocks) ASSERT_TRUE(block == 0 || block != mine) << "handed out twice";
        scene.world.figures();
        for (uptr block : others)
          if (block != 0) { EXPECT_TRUE(scene.world.free(block)); }
        scene.free_all();
        scene.world.expect_empty();
        if (!was) break;
      }
}

}  // namespace
}  // namespace freeway::michael
