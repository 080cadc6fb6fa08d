// SPDX-License-Identifier: MIT
//
// test_slab.h: a slab in memory of its own, as small.cc makes one, and what it says of itself when one walks over it.
#ifndef FREEWAY_TESTS_UNIT_TEST_SLAB_H
#define FREEWAY_TESTS_UNIT_TEST_SLAB_H

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cache/slab.h"

namespace freeway::test {

// A word that looks like a block of class c: not 0, not 1.
inline u64 block(unsigned c, u64 i) { return (u64{c} << 48) + (i + 1) * 16; }

class TestSlab {
 public:
  TestSlab() : slab_(static_cast<Slab*>(aligned_alloc(64, (sizeof(Slab) + 63) / 64 * 64))) { clear(); }
  ~TestSlab() { std::free(slab_); }
  TestSlab(const TestSlab&) = delete;

  void clear() {
    memset(static_cast<void*>(slab_), 0, sizeof(Slab));
    for (auto& top : slab_->top) top.store_relaxed(closed());
    for (unsigned c = 0; c < kClassCount; ++c) slab_->capacity[c].store_relaxed(kMagazines[c].small);
  }

  Slab& slab() const { return *slab_; }
  // The top of a class without a magazine: a zero below it and a zero above.
  u64 closed() const { return reinterpret_cast<u64>(&zeros_[1]); }

  u64 open(unsigned c) const {
    return PlainSlab(*slab_).open(c, offset_of_small(c), u64{kMagazines[c].small} * 8, closed());
  }
  u64 move(unsigned c, u64 capacity) const {
    return PlainSlab(*slab_).move(c, offset_of_small(c), u64{kMagazines[c].small} * 8,
                                  offset_of_big(c) - offset_of_small(c), capacity * 8);
  }
  u64 grow(unsigned c, u64 capacity, u64 step) const {
    return PlainSlab(*slab_).grow(offset_of_capacity(c), capacity, offset_of_big(c) + capacity * 8, step * 8);
  }

  // The blocks of class c, the lowest first: what is between the top and the zero below it.
  std::vector<u64> contents(unsigned c) const {
    std::vector<u64> blocks;
    for (u64 at = slab_->top[c].load_relaxed() - 8; read(at) != 0; at -= 8) blocks.push_back(read(at));
    std::reverse(blocks.begin(), blocks.end());
    return blocks;
  }
  // How many more there is room for: the slots from the top up to the zero above it.
  u64 room(unsigned c) const {
    u64 slots = 0;
    for (u64 at = slab_->top[c].load_relaxed(); read(at) != 0; at += 8) ++slots;
    return slots;
  }

 private:
  static u64 read(u64 at) { return slab_words::slot(at)->load_relaxed(); }

  Slab* slab_;
  Atomic<u64> zeros_[3];
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_UNIT_TEST_SLAB_H
