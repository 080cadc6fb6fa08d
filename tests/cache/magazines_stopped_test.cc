// SPDX-License-Identifier: MIT
//
// A thread ends for ever before each store, in turn, of allocations and frees through a slab of its own. Another then
// goes on with the same slab, as a forked child does: no block may be in two places, what is lost is what the thread
// had in hand, and everything else works and can be freed.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tests/cache/test_heap.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

// A heap and a slab in the middle of their life, made the same way each time.
class Scene {
 public:
  Scene(unsigned size_class, bool grown) : c(size_class) {
    kernel().reset();
    heap = std::make_unique<TestHeap>();
    slab = std::make_unique<HeapSlab>(*heap);
    if (grown)
      for (int i = 0; i < 3; ++i) {
        allocate(3000);
        release(3000);
      }
    allocate(kSizeClasses[c].blocks + 10);  // a full superblock, and some of another
    release(kMagazines[c].small / 2 + 5);
  }

  PlainSlab access() { return PlainSlab(slab->slab()); }
  void allocate(u64 count) {
    for (; count > 0; --count) {
      void* block = heap->allocate(access(), slab->slab(), c);
      ASSERT_TRUE(block != nullptr && live.insert(block).second) << "none, or in two hands";
    }
  }
  void release(u64 count) {
    for (; count > 0 && !live.empty(); --count) {
      void* block = *live.begin();
      live.erase(live.begin());  // from here on it is free()'s
      heap->release(access(), slab->slab(), c, block);
    }
  }
  void empty() { heap->magazines().empty(slab->slab()); }

  // Blocks that are neither live, nor in the slab, nor free in their superblocks; no block may be two of these.
  void count_lost(u64& lost) {
    std::set<u64> in_slab;
    for (u64 block : slab->contents(c)) {
      ASSERT_TRUE(in_slab.insert(block).second) << "twice in a magazine";
      ASSERT_FALSE(live.contains(reinterpret_cast<void*>(block))) << "live and in a magazine";
    }
    u64 taken = 0;
    for (u32 d = 1; d <= heap->backing().descriptors(); ++d) {
      auto& descriptor = heap->backing().descriptor(d);
      const uptr span = descriptor.span.load_relaxed();
      if (span == 0 || heap->backing().find(reinterpret_cast<void*>(span)).first != d) continue;  // it has none now
      for (u32 i = 0; i < kSizeClasses[c].blocks; ++i) {
        const u64 block = span + u64{i} * kSizeClasses[c].size;
        const bool free = (descriptor.words[i / 64].load_relaxed() >> (i % 64) & 1) != 0;
        taken += !free;
        ASSERT_FALSE(free && in_slab.contains(block)) << "free and in a magazine";
        ASSERT_FALSE(free && live.contains(reinterpret_cast<void*>(block))) << "free and live";
      }
    }
    ASSERT_GE(taken, live.size() + in_slab.size());
    lost = taken - live.size() - in_slab.size();
  }

  const unsigned c;
  std::unique_ptr<TestHeap> heap;
  std::unique_ptr<HeapSlab> slab;
  std::set<void*> live;
};

struct Kind {
  unsigned size_class;
  u64 stride;  // every so many stores
};

class MagazinesStoppedTest : public testing::TestWithParam<Kind> {
 protected:
  void TearDown() override { kernel().reset(); }

  void end_everywhere(bool grown, const std::function<void(Scene&)>& life) {
    u64 endings = 0;
    const unsigned c = GetParam().size_class;
    for (u64 stores = 0;; stores += GetParam().stride) {
      Scene scene(c, grown);
      if (!ended_before_store(stores, [&] { life(scene); })) break;
      ++endings;
      const std::string when = "ended before store " + std::to_string(stores);
      u64 lost = 0;
      scene.count_lost(lost);
      if (HasFatalFailure()) FAIL() << when;
      ASSERT_LE(lost, kBatchMax) << when;
      // Somebody else goes on with the slab, and with everything that was the thread's.
      scene.allocate(200);
      scene.release(300);
      scene.allocate(kSizeClasses[c].blocks);
      u64 still_lost = 0;
      scene.count_lost(still_lost);
      if (HasFatalFailure()) FAIL() << when;
      ASSERT_EQ(still_lost, lost) << when;
      scene.release(~u64{0});
      scene.empty();
      // Superblocks of which a block is lost stay, and the one that the thread held or had to list.
      ASSERT_LE(scene.heap->backing().spans(), lost + 1) << when;
      ASSERT_EQ(scene.heap->twice_freed, 0u) << when;
      ASSERT_EQ(scene.heap->not_blocks, 0u) << when;
    }
    EXPECT_GT(endings, 5u);
    proof("stops and kills", "ended before each store: magazines", "stops", endings);
  }
};

TEST_P(MagazinesStoppedTest, AllocatingThroughARefill) {
  end_everywhere(false, [](Scene& scene) { scene.allocate(kMagazines[scene.c].small + 3); });
}

TEST_P(MagazinesStoppedTest, FreeingThroughAFlush) {
  end_everywhere(false, [](Scene& scene) { scene.release(kMagazines[scene.c].small + 3); });
}

TEST_P(MagazinesStoppedTest, SwingingThroughAMoveAndGrowth) {
  end_everywhere(true, [](Scene& scene) {
    scene.allocate(10);
    scene.release(kMagazines[scene.c].small + 300);
    scene.allocate(40);
    scene.release(10);
  });
}

TEST_P(MagazinesStoppedTest, EmptyingTheSlab) {
  end_everywhere(false, [](Scene& scene) { scene.empty(); });
}

// Blocks of one superblock among the topmost are foreign now, those of the other are not.
TEST_P(MagazinesStoppedTest, SendingBlocksHome) {
  end_everywhere(false, [](Scene& scene) {
    for (auto& home : scene.slab->slab().home) home.store_relaxed(1);
    scene.heap->homes.begin()->second = 1;
    for (int i = 0; i < 3; ++i) scene.heap->magazines().send_home(scene.access(), scene.slab->slab(), scene.c);
  });
}

// 1 KiB: one word a superblock, at every store; 32 KiB: a magazine of four; 16 B: 64 words, at every 11th store, since
// each scene is long.
INSTANTIATE_TEST_SUITE_P(Class, MagazinesStoppedTest, testing::Values(Kind{20, 1}, Kind{40, 1}, Kind{1, 11}));

}  // namespace
}  // namespace freeway::test
