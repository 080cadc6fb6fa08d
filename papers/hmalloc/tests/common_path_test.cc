// SPDX-License-Identifier: MIT
//
// What malloc and free cost in atomic operations. The paper (section 3.3): the flag-based remote free "abandons atomic
// instructions"; CAS and its like happen nowhere but in the kernel. Counted here: read-modify-write operations (on
// x86-64 the locked instructions), and stores that another thread may read.
#include <gtest/gtest.h>

#include "heap_world.h"
#include "tests/support/test_env.h"

namespace freeway::hmalloc {
namespace {

struct Counts {
  int rmws, stores;
  bool operator==(const Counts&) const = default;
};
int stores;

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << c.rmws << " RMWs, " << c.stores << " atomic stores";
}

struct CountingEnv : test::TestEnv {
  template <class T> struct Atomic : freeway::Atomic<T> {
    void store_relaxed(T value) { ++stores, freeway::Atomic<T>::store_relaxed(value); }
    void store_release(T value) { ++stores, freeway::Atomic<T>::store_release(value); }
  };
};

using World = HeapWorld<CountingEnv>;

class CommonPath : public ::testing::Test {
 protected:
  World world;
  World::Heap& heap = *world.heaps.join(world);
  World::Heap& other = *world.heaps.join(world);

  template <class F> Counts cost(F&& f) {
    const int before = stores;
    const int rmws = test::rmws_of(f);
    return {rmws, stores - before};
  }
};

TEST_F(CommonPath, TheCounterCounts) {
  EXPECT_GE(cost([&] { world.heaps.leave(world, &other); }).rmws, 1);
  EXPECT_GE(cost([&] { world.heaps.join(world); }).rmws, 1);
}

TEST_F(CommonPath, LocalMallocAndFreeHaveNoRmw) {
  uptr block = heap.allocate_local(40);
  EXPECT_EQ(cost([&] { block = heap.allocate_local(40); }), (Counts{0, 2}))
      << "CurrentAddr, and the bit, which is ours";
  EXPECT_EQ(cost([&] { world.free_local(block); }), (Counts{0, 1}));
}

TEST_F(CommonPath, SharedMallocHasNoRmw) {
  uptr block = heap.allocate_shared(40);
  EXPECT_EQ(cost([&] { block = heap.allocate_shared(40); }), (Counts{0, 1})) << "a vacant block: its flag";
  world.free_shared(&heap, block);
  EXPECT_EQ(cost([&] { block = heap.allocate_shared(40); }), (Counts{0, 1})) << "a cached block: its flag";
  heap.allocate_shared(kMaxShared);
  block = heap.allocate_shared(kMaxShared);
  world.free_shared(nullptr, block - shared_size<PaperSizes>(kMaxShared));
  EXPECT_EQ(cost([&] { block = heap.allocate_shared(kMaxShared); }), (Counts{0, 1})) << "the Index-th block";
  EXPECT_EQ(cost([&] { block = heap.allocate_shared(kMaxShared); }), (Counts{0, 1})) << "a new superblock's first";
}

TEST_F(CommonPath, FreeIsOneStoreWhoeverCallsIt) {
  std::vector<uptr> blocks;
  for (int i = 0; i < 203; ++i) blocks.push_back(heap.allocate_shared(40));
  EXPECT_EQ(cost([&] { world.free_shared(&heap, blocks[0]); }), (Counts{0, 1})) << "own, to the cache list";
  EXPECT_EQ(cost([&] { world.free_shared(&other, blocks[1]); }), (Counts{0, 1})) << "remote, to the cache list";
  for (int i = 2; i < 200; ++i) world.free_shared(i % 2 == 0 ? &heap : &other, blocks[i]);
  EXPECT_EQ(cost([&] { world.free_shared(&heap, blocks[200]); }), (Counts{0, 1})) << "own, list full: the flag";
  EXPECT_EQ(cost([&] { world.free_shared(&other, blocks[201]); }), (Counts{0, 1})) << "remote, list full: the flag";
}

TEST_F(CommonPath, TraversingTheListsHasNoRmwEither) {
  std::vector<uptr> blocks;
  const Counts all = cost([&] {
    while (world.superblocks.size() < 5) blocks.push_back(heap.allocate_shared(kMaxShared));
    for (uptr block : blocks) world.free_shared(&other, block);
    for (std::size_t i = 0; i < blocks.size(); ++i) heap.allocate_shared(kMaxShared);
  });
  EXPECT_EQ(all.rmws, 0);
}

}  // namespace
}  // namespace freeway::hmalloc
