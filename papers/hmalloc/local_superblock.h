// SPDX-License-Identifier: MIT
// LocalSuperblock: blocks of any size for one thread (HMalloc 2020, Fig. 3, Algorithms 1 and 3).
//
// Layout    header | one bit for each 16 bytes: a live block starts here | blocks, from StartAddr on
// Blocks    lie one behind the other, without headers. A freed block is not used again; when all are freed the
//           superblock starts again from StartAddr (coalescence free)
// Bits      are ours: the paper keeps nothing of a block, so that a block freed twice, or a pointer into one, counts as
//           another block's end and the superblock is cleared under its live blocks. Coalescence leaves them 0 by
//           itself
// Who       the owner of the heap. Others only read: `heap` (is the block theirs to free?), and what usable() needs
// Lost if killed: the superblock, with its heap
// Checked   papers/hmalloc/tests/local_superblock_test.cc
#pragma once

#include "papers/hmalloc/sizes.h"

namespace freeway::hmalloc {

template <class Env, class S> struct LocalSuperblock {
  template <class T> using Plain = typename Env::template Plain<T>;
  template <class T> using Atomic = typename Env::template Atomic<T>;

  // Fixed at birth.
  Plain<u32> size;  // bytes of the superblock
  Plain<u32> heap;  // whose it is: what another thread that frees a block of it by mistake looks at
  Plain<uptr> start_addr;
  // The owner's. The paper's `Addr` is `this`.
  Atomic<uptr> current_addr;  // relaxed, as the bits: see usable()
  Plain<u32> allocated_num;
  Plain<u32> freed_num;
  Plain<LocalSuperblock*> next, prev;

  // A superblock of `bytes` bytes at `address`, whose memory may hold anything.
  static LocalSuperblock* make(uptr address, std::size_t bytes, u32 heap) {
    auto* sb = reinterpret_cast<LocalSuperblock*>(address);
    sb->size.set(static_cast<u32>(bytes));
    sb->heap.set(heap);
    sb->start_addr.set(align_up(address + header_bytes() + words(bytes) * sizeof(Atomic<u64>), S::kLine));
    sb->clear();
    for (std::size_t i = 0; i < words(bytes); ++i) sb->word(i).store_relaxed(0);
    return sb;
  }

  // Algorithm 1, line 4.
  std::size_t available_space() const { return end() - current_addr.load_relaxed(); }

  // Algorithm 1, lines 4-7: a block of `bytes` (rounded already), 0 if there is no room.
  uptr allocate(std::size_t bytes) {
    if (available_space() <= bytes) return 0;
    const uptr ptr = current_addr.load_relaxed();
    current_addr.store_relaxed(ptr + bytes);
    allocated_num.set(allocated_num.get() + 1);
    set_live(ptr, true);
    return ptr;
  }

  // Algorithm 3, lines 5-10. False: no live block starts there, and nothing was done.
  bool free(uptr ptr) {
    if (!is_live(ptr)) return false;
    set_live(ptr, false);
    freed_num.set(freed_num.get() + 1);
    if (freed_num.get() == allocated_num.get()) clear();
    return true;
  }

  // Whether a block that is in use starts at `ptr`.
  bool is_live(uptr ptr) const {
    if (!may_start_at(ptr)) return false;
    const std::size_t bit = bit_of(ptr);
    return (word(bit / 64).load_relaxed() >> (bit % 64) & 1) != 0;
  }
  // Whether `ptr` could be a block's start by its address: in what has been handed out, and aligned.
  bool may_start_at(uptr ptr) const {
    return ptr >= start_addr.get() && ptr < current_addr.load_relaxed() && ptr % S::kLocalStep == 0;
  }

  // The bytes from the live block `ptr` to the next live one. What lies between was freed and is not handed out again
  // before this block is freed too. Any thread that has the block may ask: it sees the block's own bytes at least.
  std::size_t usable(uptr ptr) const {
    const std::size_t from = bit_of(ptr) + 1, to = bit_of(current_addr.load_relaxed());
    for (std::size_t bit = from; bit < to; bit = (bit / 64 + 1) * 64)
      if (u64 rest = word(bit / 64).load_relaxed() >> (bit % 64))
        return (bit + lowest_bit(rest) - bit_of(ptr)) * S::kLocalStep;
    return current_addr.load_relaxed() - ptr;
  }

  // The block at `ptr` becomes one at `aligned`, further up in it.
  void move_start(uptr ptr, uptr aligned) {
    set_live(ptr, false);
    set_live(aligned, true);
  }

  bool empty() const { return allocated_num.get() == 0; }
  u32 live_blocks() const { return allocated_num.get() - freed_num.get(); }

 private:
  static constexpr std::size_t header_bytes() { return align_up(sizeof(LocalSuperblock), S::kLine); }
  static constexpr std::size_t words(std::size_t bytes) { return ceil_div(bytes, S::kLocalStep * 64); }

  Atomic<u64>& word(std::size_t i) const {
    return reinterpret_cast<Atomic<u64>*>(reinterpret_cast<uptr>(this) + header_bytes())[i];
  }
  uptr end() const { return reinterpret_cast<uptr>(this) + size.get(); }
  std::size_t bit_of(uptr ptr) const { return (ptr - start_addr.get()) / S::kLocalStep; }

  void set_live(uptr ptr, bool live) {
    const std::size_t bit = bit_of(ptr);
    const u64 mask = u64{1} << (bit % 64);
    Atomic<u64>& w = word(bit / 64);
    w.store_relaxed(live ? w.load_relaxed() | mask : w.load_relaxed() & ~mask);
  }

  // Algorithm 3, lines 7-9: coalescence free.
  void clear() {
    allocated_num.set(0);
    freed_num.set(0);
    current_addr.store_relaxed(start_addr.get());
  }
};

}  // namespace freeway::hmalloc
