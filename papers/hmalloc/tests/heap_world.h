// SPDX-License-Identifier: MIT
//
// heap_world.h: what a heap of HMalloc needs around it: superblocks from the test's kernel, full of rubbish, and a map
// that knows of each address what it belongs to.
#ifndef FREEWAY_TESTS_ENGINES_HMALLOC_HEAP_WORLD_H
#define FREEWAY_TESTS_ENGINES_HMALLOC_HEAP_WORLD_H

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "papers/hmalloc/heaps.h"
#include "tests/support/test_env.h"

namespace freeway::hmalloc {

template <class Env, class S = PaperSizes> class HeapWorld {
 public:
  using Heap = ThreadHeap<Env, S, HeapWorld>;
  using Local = typename Heap::Local;
  using Shared = typename Heap::Shared;

  ~HeapWorld() {
    for (auto& [address, kind] : superblocks) test::kernel().release(address, bytes_of<S>(kind));
  }

  // Source (thread_heap.h, heaps.h).
  uptr take(Kind kind) {
    std::lock_guard guard(mutex_);
    const uptr address = test::kernel().map(bytes_of<S>(kind), bytes_of<S>(kind));
    if (address == 0) return 0;
    memset(reinterpret_cast<void*>(address), 0xdb, bytes_of<S>(kind));
    superblocks[address] = kind;
    return address;
  }
  void give(uptr address, Kind kind) {
    std::lock_guard guard(mutex_);
    ASSERT_EQ(superblocks.count(address), 1u);
    ASSERT_EQ(superblocks[address], kind);
    superblocks.erase(address);
    test::kernel().release(address, bytes_of<S>(kind));
  }
  static std::size_t page() { return 4096; }
  void purge(uptr address, std::size_t bytes) {
    ASSERT_TRUE(test::kernel().purge(address, bytes));
    purged += bytes;
  }
  Local* local_of(uptr address) { return reinterpret_cast<Local*>(start_of(address)); }
  void freed_twice(uptr) { ++late_faults; }
  Heap* heap(u32 index) { return heaps_[index - 1].get(); }
  u32 make_heap() {
    std::lock_guard guard(mutex_);
    if (refuse_heaps || made_ == kMostHeaps) return 0;
    heaps_[made_] = std::make_unique<Heap>();
    return ++made_;
  }

  // For tests.
  uptr start_of(uptr address) {
    std::lock_guard guard(mutex_);
    auto next = superblocks.upper_bound(address);
    if (next == superblocks.begin()) return 0;
    auto& [start, kind] = *std::prev(next);
    return address < start + bytes_of<S>(kind) ? start : 0;
  }
  Shared& shared_of(uptr address) { return *reinterpret_cast<Shared*>(start_of(address)); }
  Freed free_shared(Heap* mine, uptr address) { return Heap::free_shared(mine, shared_of(address), address); }
  Freed free_local(uptr address) { return Heap::free_local(*local_of(address), address); }
  u64 flag(uptr user) { return flag_of<Env>(user - S::kFlagArea).load_relaxed(); }
  std::size_t bytes() {
    std::size_t sum = 0;
    for (auto& [address, kind] : superblocks) sum += bytes_of<S>(kind);
    return sum;
  }
  u32 heaps_made() const { return made_; }

  std::map<uptr, Kind> superblocks;
  Heaps<Env, S, HeapWorld> heaps;
  bool refuse_heaps = false;
  int late_faults = 0;
  std::atomic<std::size_t> purged{0};

 private:
  static constexpr u32 kMostHeaps = 256;
  std::mutex mutex_;
  std::unique_ptr<Heap> heaps_[kMostHeaps];
  u32 made_ = 0;
};

}  // namespace freeway::hmalloc

#endif  // FREEWAY_TESTS_ENGINES_HMALLOC_HEAP_WORLD_H
