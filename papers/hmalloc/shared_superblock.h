// SPDX-License-Identifier: MIT
// SharedSuperblock: blocks of one size for all threads (HMalloc 2020, Fig. 4, Algorithm 2).
//
// Layout    header: one line that never changes, one that the owner writes to | blocks, multiples of 64 bytes, each
//           with its flag (flag.h) in front
// States    VacantObjects > 0: the blocks from CurrentAddr on were never handed out, and their flags are not looked at.
//           Then: only the Index-th block is looked at; if it is not free the superblock counts as exhausted, whatever
//           the others are
// Who       take_vacant, probe, occupied: the owner of the heap.   block_of, the first line, a block's flag: whoever
//           has a block of it
// Orders    flag.h: a block whose flag is free was left by its last user, and so was the header
// Lost if killed: the block in hand
// Checked   papers/hmalloc/tests/{shared_superblock_test,flag_model}.cc
#pragma once

#include "papers/hmalloc/flag.h"

namespace freeway::hmalloc {

template <class Env, class S> struct SharedSuperblock {
  template <class T> using Plain = typename Env::template Plain<T>;

  // Fixed at birth.
  Plain<u32> size;  // bytes of the superblock
  Plain<u32> heap;
  Plain<u32> object_size;
  Plain<u32> total_objects;
  Plain<u64> reciprocal;  // of the object size in lines, times 2^32, rounded up
  Plain<uptr> start_addr;
  // The owner's, on a line of their own: others read the ones above at each free. The paper's `Addr` is `this`.
  alignas(64) Plain<uptr> current_addr;
  Plain<u32> vacant_objects;
  Plain<u32> index;
  Plain<u64> purged;  // what state() was when trim last purged pages
  Plain<SharedSuperblock*> next, prev;

  static constexpr std::size_t header_bytes() { return align_up(sizeof(SharedSuperblock), S::kLine); }

  // A superblock of `bytes` bytes at `address`, whose memory may hold anything. `object`: bytes a block, flag included.
  static SharedSuperblock* make(uptr address, std::size_t bytes, std::size_t object, u32 heap) {
    auto* sb = reinterpret_cast<SharedSuperblock*>(address);
    const uptr start = address + header_bytes();
    const auto total = static_cast<u32>((address + bytes - start) / object);
    sb->size.set(static_cast<u32>(bytes));
    sb->heap.set(heap);
    sb->object_size.set(static_cast<u32>(object));
    sb->total_objects.set(total);
    sb->reciprocal.set(reciprocal_of(static_cast<u32>(object / S::kLine)));
    sb->start_addr.set(start);
    sb->current_addr.set(start);
    sb->vacant_objects.set(total);
    sb->index.set(0);
    sb->purged.set(0);
    return sb;
  }

  // Algorithm 2, lines 10-13: a block that was never handed out, 0 if there is none.
  uptr take_vacant() {
    const u32 vacant = vacant_objects.get();
    if (vacant == 0) return 0;
    const uptr ptr = current_addr.get();
    current_addr.set(ptr + object_size.get());
    vacant_objects.set(vacant - 1);
    return ptr;
  }

  // Algorithm 2, lines 15 and 20-21 with the text of section 3.2: the Index-th block if it is free, else 0. Index moves
  // on when the block is taken, in the current superblock and in one from SSL alike, and starts again at TotalObjects.
  uptr probe() {
    const u32 at = index.get();
    const uptr ptr = start_addr.get() + uptr{at} * object_size.get();
    if (look_at_flag<Env>(ptr) != Flag<S>::kFree) return 0;
    index.set(at + 1 == total_objects.get() ? 0 : at + 1);
    return ptr;
  }

  // The start of the block that `address` lies in, 0 if that is no block.
  uptr block_of(uptr address) const {
    const u64 offset = address - start_addr.get();  // below StartAddr: beyond every block
    const u64 which = ((offset / S::kLine) * reciprocal.get()) >> 32;
    if (offset >= size.get() || which >= total_objects.get()) return 0;
    return start_addr.get() + which * object_size.get();
  }

  // Whether `block`, or 0, is in use and was handed out as `address`. Exact for whoever has the block.
  bool handed_out_at(uptr block, uptr address) const {
    return block != 0 && flag_of<Env>(block).load_relaxed() == Flag<S>::occupied(address - block);
  }
  // Bytes that may be used from `address` on; 0 if no block was handed out there.
  std::size_t usable(uptr address) const {
    const uptr block = block_of(address);
    return handed_out_at(block, address) ? block + object_size.get() - address : 0;
  }
  // Whether a block, free or in use, begins there: what to call an address that no block was handed out at.
  bool begins_block(uptr address) const {
    const uptr block = block_of(address);
    if (block == 0) return false;
    return address == block + S::kFlagArea && !Flag<S>::is_occupied(flag_of<Env>(block).load_relaxed());
  }

  // How many blocks are not free, as far as their flags say: 0 if the superblock is empty, and then who asks sees all
  // that was done with them.
  u32 occupied() const {
    u32 count = 0;
    each_used([&](uptr, u64 flag) {
      count += flag != Flag<S>::kFree;
      return true;
    });
    return count;
  }
  // The same number as long as the same blocks are in use, unless Index has gone round exactly. Never 0.
  u64 state(u32 in_use) const { return (u64{in_use} << 40) | (u64{vacant_objects.get()} << 20) | index.get(); }
  // Calls f(block, flag) for every block that was ever handed out, until it returns false.
  template <class F> void each_used(F&& f) const {
    const uptr end = current_addr.get();
    for (uptr ptr = start_addr.get(); ptr < end; ptr += object_size.get())
      if (!f(ptr, look_at_flag<Env>(ptr))) return;
  }

  // Calls f(from, to) for each stretch of memory that holds no block in use: free blocks, the vacant ones at the end.
  // It is the owner's, and may be purged: flags that read as 0 stay so.
  template <class F> void each_free_stretch(F&& f) const {
    uptr from = start_addr.get();
    each_used([&](uptr ptr, u64 flag) {
      if (flag == Flag<S>::kFree) return true;
      if (from < ptr) f(from, ptr);
      from = ptr + object_size.get();
      return true;
    });
    f(from, reinterpret_cast<uptr>(this) + size.get());
  }

  // (lines * reciprocal) >> 32 == lines / object, for every number of lines in a superblock: it is too large by less
  // than lines / 2^32 < 1 / object.
  static constexpr u64 reciprocal_of(u32 object) { return ceil_div(u64{1} << 32, object); }
  static_assert((S::kLater / S::kLine) * (S::kSharedLimit / S::kLine) <= u64{1} << 32);
};

}  // namespace freeway::hmalloc
