// SPDX-License-Identifier: MIT
// superblock.h: a superblock's header, and the prefix of its blocks (sections 3.2.1 and 3.2.2).
//
// The paper keeps the header at the superblock's start. Here it lies in type-stable memory outside: a list of the
// global heap may be read by a thread that comes too late, and a superblock's memory may be the operating system's by
// then. A header describes one superblock after the other; which one, only those may ask who hold it or own a block of
// it.
//
// Words     local: local_word.h   remote: remote_word.h   link: of the list that it is in (its owner's)
//           base, size_class, index: written by who makes the superblock, read by who owns a block of it
//           older: the header made before this one; constant
// Prefix    the header's address; bit 0 is set while the block is free. Written by the block's owner: set just before
//           the block is freed, cleared just after it was allocated; so that a block freed twice is noticed
#pragma once

#include <cstddef>

#include "papers/lfmalloc/layout.h"
#include "papers/lfmalloc/local_word.h"
#include "papers/lfmalloc/remote_word.h"
#include "papers/lfmalloc/size_map.h"

namespace freeway::lfmalloc {

template <class Env> struct Superblock {
  // What belongs to the CPU where it is on line, and what never changes while it lives …
  typename Env::template Local<u64> local;
  typename Env::template Local<u64> base;  // address of its 64 KiB
  typename Env::template Atomic<u32> size_class;
  typename Env::template Atomic<u32> index;  // the header's own, for lists
  typename Env::template Atomic<u32> older;
  // … and, on a line of its own, what other CPUs write.
  alignas(64) typename Env::template Atomic<u64> remote;
  typename Env::template Atomic<u32> link;
  typename Env::template Atomic<u32> lock;  // only where the remote list is kept under the paper's mutex
};

template <class Env> constexpr void assert_layout() {
  static_assert(offsetof(Superblock<Env>, local) == LFMALLOC_LOCAL && offsetof(Superblock<Env>, base) == LFMALLOC_BASE);
  static_assert(sizeof(Superblock<Env>) == 128);
}
static_assert(local::kHeadMask == LFMALLOC_HEAD_MASK && local::kOne == LFMALLOC_ONE_BLOCK);

// Blocks are named by their data's offset in the superblock / 16.
constexpr u32 unit_of(uptr block) { return static_cast<u32>(block % kSuperblockBytes / 16); }
constexpr uptr block_at(uptr base, u32 unit) { return base + uptr{unit} * 16; }

namespace prefix {
constexpr u64 kFree = 1;     // a free block's
constexpr u64 kAligned = 2;  // stands before an aligned address within a block: the block's address
}  // namespace prefix

}  // namespace freeway::lfmalloc
