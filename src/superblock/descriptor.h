// SPDX-License-Identifier: MIT
// Descriptor: the state of a superblock, outside the memory it describes.
//
// One cache line, then one bit a block (1 = free). Type-stable: a descriptor's memory is never anything else, and its
// class is constant for ever, so a thread that slept through the death and rebirth of its superblock still reads a
// descriptor of the class it expects.
//
// Words     anchor: see anchor.h.   words[]: bits set by any freer, cleared only by the holder.
//           link: the owner's (tagged_stack.h).   span, node: written at birth, read by any owner of one of its blocks
// Plain     owed, next_word: the holder's
#pragma once

#include "superblock/anchor.h"

namespace freeway {

template <class Env> struct Descriptor {
  typename Env::template Atomic<u64> anchor;
  typename Env::template Atomic<u64> span;  // address of the first block
  typename Env::template Atomic<u32> link;
  typename Env::template Atomic<u32> size_class;  // 0 until the descriptor is made, then constant
  typename Env::template Plain<u64> owed;         // the counts that let_go() will subtract from the anchor
  typename Env::template Plain<u32> next_word;    // where take() continues
  typename Env::template Atomic<u32> node;        // the NUMA node it belongs to, if there are several
  typename Env::template Atomic<u32> kind;        // its kind, where there are Superblocks of several kinds: constant
  typename Env::template Atomic<u32> next;        // of a heap of the program's (heap/records.h): its next descriptor
  typename Env::template Atomic<u64> heap;        // that heap
  alignas(64) typename Env::template Atomic<u64> words[1];  // really as many as the class has

  // A new holder's first step.
  void begin() {
    owed.set(0);
    next_word.set(0);
  }

  // Bytes of a descriptor with `words` words.
  static constexpr std::size_t bytes(unsigned words) {
    return sizeof(Descriptor) - sizeof(Descriptor::words) - kTailPadding + align_up(words * sizeof(u64), 64);
  }

 private:
  static constexpr std::size_t kTailPadding = 64 - sizeof(u64);
};

}  // namespace freeway
