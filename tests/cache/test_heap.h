// SPDX-License-Identifier: MIT
//
// test_heap.h: what magazines need of a heap, over superblocks of the shipped size classes; and accesses to slabs as a
// thread may meet them: none, or another one each time.
#ifndef FREEWAY_TESTS_UNIT_TEST_HEAP_H
#define FREEWAY_TESTS_UNIT_TEST_HEAP_H

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cache/magazines.h"
#include "os/machine.h"
#include "os/random.h"
#include "tests/cache/test_slab.h"
#include "tests/superblock/test_backing.h"
#include "tests/support/random.h"

namespace freeway::test {

class TestHeap {
 public:
  using Env = TestEnv;
  using Backing = TestBacking<TestEnv, kSizeClasses>;

  TestHeap() {
    superblocks_->init(&backing_);
    magazines_.init(this);
  }

  Superblocks<TestEnv, Backing>& superblocks() { return *superblocks_; }
  Backing& backing() { return backing_; }
  Magazines<TestHeap>& magazines() { return magazines_; }
  u64 closed() const { return reinterpret_cast<u64>(&zeros_[1]); }

  Place place_of(unsigned, const SizeClass& k, void* block) {
    const auto [d, span] = backing_.find(block);
    const u64 offset = reinterpret_cast<uptr>(block) - span;
    if (d == 0 || offset % k.size != 0) {
      ++not_blocks;
      return {0, 0};
    }
    return {d, static_cast<u32>(offset / k.size)};
  }
  void free_group(unsigned c, const SizeClass& k, const Group& group, void* block) {
    const uptr span = align_down(reinterpret_cast<uptr>(block), k.span_bytes());
    ++groups_freed;
    twice_freed += popcount(superblocks().free_group(c, group.descriptor(), span, group.word(), group.mask));
  }

  random::Stream random() { return random_.stream(1); }
  void leaves_rest(unsigned, void* const*, unsigned) {}
  bool is_far(uptr address) const { return (far_from != 0 && address >= far_from) || (address & far_bit) != 0; }
  bool is_foreign(const Slab& home, unsigned c, const void* block) {
    const u32 d = backing_.find(const_cast<void*>(block)).first;
    return homes.count(d) != 0 && homes[d] != home.home[c].load_relaxed();
  }
  static bool has_nodes() { return false; }
  static bool is_away(const Slab&, unsigned, const void*) { return false; }
  void settle_home(const Slab& home, unsigned c, u32 d) { homes[d] = home.home[c].load_relaxed(); }

  // What the public functions do with a slab that a thread has.
  template <class Access> void* allocate(const Access& access, Slab& home, unsigned c) {
    if (const u64 slot = access.pop(c)) return slots::block_of(slot);
    return magazines_.refill(access, home, c);
  }
  template <class Access> void release(const Access& access, Slab& home, unsigned c, void* block) {
    const u64 slot = slots::of(block, is_far(reinterpret_cast<uptr>(block)));
    if (access.push(c, slot) || magazines_.stash(access, home, c, block)) return;
    magazines_.flush(c, &block, 1);
  }

  uptr far_from = 0;        // blocks from here on are far; 0: none are
  uptr far_bit = 0;         // so are those in whose addresses this bit is set
  std::map<u32, u8> homes;  // of superblocks, by descriptor
  unsigned not_blocks = 0, twice_freed = 0, groups_freed = 0;

 private:
  Backing backing_;
  std::unique_ptr<Superblocks<TestEnv, Backing>> superblocks_ = std::make_unique<Superblocks<TestEnv, Backing>>();
  Magazines<TestHeap> magazines_;
  freeway::Random<Machine> random_;
  Atomic<u64> zeros_[3];
};

// A slab of a heap: its closed magazines have the heap's top.
class HeapSlab : public TestSlab {
 public:
  explicit HeapSlab(TestHeap& heap) {
    for (auto& top : slab().top) top.store_relaxed(heap.closed());
  }
};

// A thread that has no slab: each answer is that of an empty and full one.
class NoSlab {
 public:
  u64 pop(unsigned) const { return 0; }
  bool push(unsigned, u64) const { return false; }
  unsigned pop_batch(unsigned, void**, unsigned) const { return 0; }
  unsigned push_batch(unsigned, void* const*, unsigned) const { return 0; }
  unsigned push_run(unsigned, u64, u64, unsigned) const { return 0; }
  u32 take_current(unsigned) const { return 0; }
  bool put_current(unsigned, u32) const { return false; }
  bool open(unsigned, u64, u64, u64) const { return false; }
  bool move(unsigned, u64, u64, u64, u64) const { return false; }
  u64 grow(u64, u64, u64, u64) const { return 0; }
  bool replace(u64, u64, u64) const { return false; }
};

// A thread that the kernel moves about: each call finds the slab of some CPU, or none.
class Wanderer {
 public:
  Wanderer(std::vector<Slab*> slabs, Random& random) : slabs_(std::move(slabs)), random_(random) {}

  u64 pop(unsigned c) const {
    return with(u64{0}, [&](auto a) { return a.pop(c); });
  }
  bool push(unsigned c, u64 b) const {
    return with(false, [&](auto a) { return a.push(c, b); });
  }
  unsigned pop_batch(unsigned c, void** out, unsigned n) const {
    return with(0u, [&](auto a) { return a.pop_batch(c, out, n); });
  }
  unsigned push_batch(unsigned c, void* const* in, unsigned n) const {
    return with(0u, [&](auto a) { return a.push_batch(c, in, n); });
  }
  unsigned push_run(unsigned c, u64 lowest, u64 size, unsigned n) const {
    return with(0u, [&](auto a) { return a.push_run(c, lowest, size, n); });
  }
  u32 take_current(unsigned c) const {
    return with(0u, [&](auto a) { return a.take_current(c); });
  }
  bool put_current(unsigned c, u32 d) const {
    return with(false, [&](auto a) { return a.put_current(c, d); });
  }
  bool open(unsigned c, u64 area, u64 bytes, u64 closed) const {
    return with(false, [&](auto a) { return a.open(c, area, bytes, closed); });
  }
  bool move(unsigned c, u64 old_area, u64 old_bytes, u64 distance, u64 new_bytes) const {
    return with(false, [&](auto a) { return a.move(c, old_area, old_bytes, distance, new_bytes); });
  }
  u64 grow(u64 at, u64 expected, u64 end, u64 bytes) const {
    return with(u64{0}, [&](auto a) { return a.grow(at, expected, end, bytes); });
  }
  bool replace(u64 at, u64 expected, u64 value) const {
    return with(false, [&](auto a) { return a.replace(at, expected, value); });
  }

 private:
  template <class T, class F> T with(T none, F&& f) const {
    const std::size_t which = random_.below(slabs_.size() + 1);
    return which == slabs_.size() ? none : f(PlainSlab(*slabs_[which]));
  }

  std::vector<Slab*> slabs_;
  Random& random_;
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_TEST_HEAP_H
