// SPDX-License-Identifier: MIT
// local_heap.h: a local heap, and what is done to one by who has it to himself (section 3.2.3).
//
// Words     online[i]: the superblock of class i that the heap owns, null = none: at most one (section 3.2.2 (1))
// Local     a block is local to a heap if the heap's superblock of its class is the block's: a look at one word. So one
//           store takes a superblock off line and another on line
// Twins     pop, push and install are the sections of x86_64/sections.S in C++: for heaps under a lock, and for models,
//           where each is one step. papers/lfmalloc/tests/sections_test.cc compares the two
// Invariant each is one store from being done: who stops within one has done nothing
#pragma once

#include "papers/lfmalloc/superblock.h"

namespace freeway::lfmalloc {

constexpr unsigned kSlots = 64;  // room for kClassCount, at a round distance
static_assert(kClassCount <= kSlots);

template <class Env> struct LocalHeap {
  typename Env::template Local<Superblock<Env>*> online[kSlots];
  typename Env::template Atomic<u32> lock;  // only where a lock protects the heap
};

// What popping gives: a block, or, when it is 0, the superblock whose local list was empty (null: none is on line).
template <class Env> struct Popped {
  uptr block;
  Superblock<Env>* seen;
};

namespace alone {

// malloc [5]-[9].
template <class Env> Popped<Env> pop(LocalHeap<Env>& heap, unsigned c) {
  Superblock<Env>* s = heap.online[c].load_relaxed();
  if (s == nullptr) return {0, nullptr};
  const u64 list = s->local.load_relaxed();
  if (local::head(list) == 0) return {0, s};
  const uptr block = block_at(s->base.load_relaxed(), local::head(list));
  s->local.store_relaxed(local::popped(list, Env::link(block).load_relaxed()));
  return {block, nullptr};
}

// free [4]-[7]. False: the block is not local.
template <class Env> bool push(LocalHeap<Env>& heap, unsigned c, Superblock<Env>* s, uptr block) {
  if (heap.online[c].load_relaxed() != s) return false;
  const u64 list = s->local.load_relaxed();
  Env::link(block).store_relaxed(local::head(list));
  s->local.store_relaxed(local::pushed(list, unit_of(block)));
  return true;
}

// malloc [25]: puts `fresh` in the place of `expected`, if that is on line; returns what is.
template <class Env>
Superblock<Env>* install(LocalHeap<Env>& heap, unsigned c, Superblock<Env>* expected, Superblock<Env>* fresh) {
  Superblock<Env>* seen = heap.online[c].load_relaxed();
  if (seen == expected) heap.online[c].store_relaxed(fresh);
  return seen;
}

}  // namespace alone
}  // namespace freeway::lfmalloc
