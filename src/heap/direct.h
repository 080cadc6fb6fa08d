// SPDX-License-Identifier: MIT
// direct.h: blocks of a heap for calls without a slab: off a strip and, for each class, a superblock, which the heap
// has in hand.
//
// Words     strip_: null <-> the strip, open; its end is where the next block begins.   current_[c]: 0 <-> the
//           superblock, held
// Moves     take: the content -> 0; the thread that took it out has it to itself.   put: 0 -> the content (CAS); else
//           the thread closes its strip, or lets its superblock go
// Orders    [R1] what was done to a strip, or superblock, is published with it; [A1] the next thread that takes it out
//           sees that
// Progress  lock-free: a call that finds a word 0 makes do with another superblock, or strip
// Lost if killed, until the heap is destroyed: the superblock, or strip, in hand
// Checked   tests/heap/direct_model.cc, tests/abi/heap_test.cc
#pragma once

#include "base/compiler.h"
#include "heap/records.h"
#include "size/size_classes.h"

namespace freeway::heap {

// A word for one thing.
template <class Env, class T> class Shelf {
 public:
  FREEWAY_INLINE T take() { return looks_empty() ? T{} : word_.exchange_acquire(T{}); }  // [A1] pairs with [R1]
  // False: there is one already.
  bool put(T one) {
    T none{};
    return word_.cas_release(none, one);  // [R1] pairs with [A1]
  }
  bool looks_empty() const { return word_.load_relaxed() == T{}; }
  void clear() { word_.store_relaxed(T{}); }

 private:
  typename Env::template Atomic<T> word_;
};

template <class Env, class SuperblocksOf> class DirectSuperblocks {
 public:
  // A block of class `c`; null: no memory, or the limit. take(d, block) takes one of a superblock, if one is free. The
  // superblock stays held, so that it does not come and go with its last block.
  template <class Take> void* allocate(SuperblocksOf& superblocks, unsigned c, Take&& take) {
    void* block = nullptr;
    for (u32 d = current_[c].take(); d != 0 || (d = superblocks.hold(c)) != 0; d = 0) {
      const bool has_one = take(d, &block);
      Env::step("own.direct");
      if (!has_one || !current_[c].put(d)) superblocks.let_go(d);
      if (has_one) return block;
    }
    return nullptr;
  }
  void empty(SuperblocksOf& superblocks, unsigned c) {
    if (const u32 d = current_[c].take()) superblocks.let_go(d);
  }
  bool looks_empty(unsigned c) const { return current_[c].looks_empty(); }
  void clear() {
    for (auto& current : current_) current.clear();
  }

 private:
  Shelf<Env, u32> current_[kClassCount];
};

template <class Env, class StripsOf> class DirectStrip {
 public:
  // Where a block of class `c` begins; 0: the strip has no room, and, if another one may be opened, there is no memory,
  // or the limit.
  uptr allocate(StripsOf& strips, Record<Env>& heap, unsigned c, bool may_open) {
    if (!may_open && strip_.looks_empty()) return 0;
    Run<Env>* one = strip_.take();
    Env::step("own.strip_taken");
    const auto has_room = [&] {
      return one != nullptr &&
             one->end.load_relaxed() + kSizeClasses[c].size <= one->address.load_relaxed() + kFrameSize;
    };
    if (!has_room() && may_open && heap.room() != 0) {
      if (one != nullptr) strips.close(heap, *one, one->end.load_relaxed());
      if ((one = strips.make_strip(heap)) != nullptr) one->end.store_relaxed(one->address.load_relaxed());
      opened_.store_relaxed(opened_.load_relaxed() + 1);
    }
    uptr block = 0;
    if (has_room()) {
      block = one->end.load_relaxed();
      StripsOf::kind_of(*one, block).store_relaxed(static_cast<u8>(c));
      one->end.store_relaxed(block + kSizeClasses[c].size);
    }
    if (one != nullptr) put(strips, heap, *one);
    return block;
  }
  // Closes the strip, if it is time.
  void leave(StripsOf& strips, Record<Env>& heap, typename StripsOf::When when) {
    Run<Env>* one = strip_.take();
    if (one == nullptr) return;
    const uptr end = one->end.load_relaxed();
    if (StripsOf::is_time(when, *one, end)) return strips.close(heap, *one, end);
    put(strips, heap, *one);
  }
  // How many there were.
  u32 opened() const { return opened_.load_relaxed(); }
  void clear() {
    strip_.clear();
    opened_.store_relaxed(0);
  }

 private:
  void put(StripsOf& strips, Record<Env>& heap, Run<Env>& one) {
    Env::step("own.putting_strip");
    if (!strip_.put(&one)) strips.close(heap, one, one.end.load_relaxed());
  }

  Shelf<Env, Run<Env>*> strip_;
  typename Env::template Atomic<u32> opened_;
};

}  // namespace freeway::heap
