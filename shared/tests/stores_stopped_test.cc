// SPDX-License-Identifier: MIT
//
// Each operation of shared, ended for ever before each of its stores, in turn; then recovered by another, which is
// ended for ever before each of its stores, too, and recovered by a third: nothing is lost, what the program has is
// live.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/tests/ground.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr u32 kVictim = 1, kFirst = 2, kSecond = 3;  // seats; their tokens are the same numbers

// The same state each time: seat 1 with some blocks of a few classes, and half of the others' superblocks.
class Scene {
 public:
  static constexpr u64 kSizes[] = {16, 1024, 5000, 20000, 70000};

  Scene() : ground(128) {
    for (u32 seat : {kVictim, kFirst, kSecond}) heap().join(seat, seat);
    slots = heap().malloc(kFirst, 64);
    for (const u64 bytes : kSizes)
      for (int i = 0; i < 5; ++i) blocks.push_back(heap().malloc(i % 2 == 0 ? kVictim : kFirst, bytes));
    filled = slots + 8;
    heap().alloc_into(kVictim, slots, 100);
    heap().alloc_into(kVictim, filled, 100000);
    live = blocks.size() + 1;
  }
  SharedGround::Heap heap() { return ground.heap(); }
  u64 in_slots() {
    u64 count = 0;
    for (u64 slot = slots; slot < slots + 64; slot += 8)
      if (const u64 block = ground.world().slot(slot)->load_relaxed(); block != 0) {
        EXPECT_NE(heap().usable(block), 0u) << "what is in a slot is live";
        ++count;
      }
    return count;
  }

  SharedGround ground;
  u64 slots, filled;
  std::vector<u64> blocks;
  u64 live;  // blocks of the program, but for those in slots
};

struct Operation {
  std::string name;
  u64 uncertain;  // blocks that may be live or not when it ends in between
  std::function<void(Scene&)> run;
};

std::vector<Operation> operations() {
  std::vector<Operation> all;
  for (const u64 bytes : Scene::kSizes) {
    all.push_back({"malloc " + std::to_string(bytes), 1, [=](Scene& s) { s.heap().malloc(kVictim, bytes), ++s.live; }});
    all.push_back({"alloc_into " + std::to_string(bytes), 0,
                   [=](Scene& s) { s.heap().alloc_into(kVictim, s.slots + 16, bytes); }});
  }
  for (std::size_t i = 0; i < std::size(Scene::kSizes); ++i)
    for (const std::size_t n : {i * 5, i * 5 + 1})
      all.push_back({"free " + std::to_string(n), 1, [=](Scene& s) { --s.live, s.heap().free(kVictim, s.blocks[n]); }});
  for (const u64 at : {0, 8})
    all.push_back({"free_from " + std::to_string(at), 0, [=](Scene& s) { s.heap().free_from(kVictim, s.slots + at); }});
  all.push_back({"leave", 0, [](Scene& s) { s.heap().leave(kVictim); }});
  all.push_back({"trim", 0, [](Scene& s) { s.heap().trim(kVictim, s.ground.world().frames() - 1); }});
  return all;
}

void expect_nothing_lost(Scene& scene, const Operation& operation) {
  const shared::Audit found = scene.heap().audit();
  ASSERT_EQ(found.lost_blocks, 0u);
  ASSERT_EQ(found.lost_frames, 0u);
  ASSERT_EQ(found.unnoticed, 0u);
  ASSERT_EQ(found.left_behind, 0u);
  const u64 known = scene.live + scene.in_slots();
  ASSERT_LE(found.live_blocks, known + operation.uncertain);
  ASSERT_GE(found.live_blocks + operation.uncertain, known);
}

// The operation ends before its store `n`; false: it has fewer.
bool kill(Scene& scene, const Operation& operation, u64 n) {
  const bool ended = ended_before_store(n, [&] { operation.run(scene); });
  scene.ground.set_gone(kVictim);
  return ended;
}

TEST(SharedStopped, NothingIsLostWhereverAnOperationEnds) {
  u64 kills = 0;
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    for (u64 n = 0;; ++n, ++kills) {
      SCOPED_TRACE(n);
      Scene scene;
      const bool ended = kill(scene, operation, n);
      scene.heap().recover_all(kSecond);
      expect_nothing_lost(scene, operation);
      if (HasFatalFailure() || !ended) break;
      ASSERT_TRUE(scene.heap().join(kVictim, 10)) << "the seat is free again";
    }
    ASSERT_FALSE(HasFatalFailure());
  }
  proof("stops and kills", "shared heap: each operation, before each store", "kills", kills);
}

// FREEWAY_STOPS_EVERY: of each recovery's stores, each so-manieth; which, differs from one to the next.
TEST(SharedStopped, NothingIsLostWhereverARecoveryEnds) {
  const u64 every = number_from_environment("FREEWAY_STOPS_EVERY", 100);
  u64 kills = 0;
  for (const Operation& operation : operations()) {
    SCOPED_TRACE(operation.name);
    bool more = true;
    for (u64 n = 0; more; ++n) {
      SCOPED_TRACE(n);
      for (u64 m = n * 7 % every;; m += every, ++kills) {
        SCOPED_TRACE(m);
        Scene scene;
        more = kill(scene, operation, n);
        const bool ended = ended_before_store(m, [&] { scene.heap().recover(kVictim, kFirst); });
        if (!ended) break;
        scene.ground.set_gone(kFirst);
        scene.heap().recover_all(kSecond);
        expect_nothing_lost(scene, operation);
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
  proof("stops and kills", "shared heap: each recovery, before each store", "kills", kills);
}

}  // namespace
}  // namespace freeway::test
