// SPDX-License-Identifier: MIT
// RseqSlabs: the operations of PlainSlab (slab.h) on the slab that the current CPU has in a table, through restartable
// sections.
//
// Each call may find another CPU's slab than the one before, or none; then it answers as an empty and full slab would.
#pragma once

#include "cache/hot.h"
#include "cache/rseq_sections.h"
#include "cache/slab.h"

namespace freeway {

class RseqSlabs {
 public:
  // `table`: the malloc's slabs, or others.
  explicit RseqSlabs(const void* table = freeway_hot.slab_of) : table_(table) {}
  u64 pop(unsigned c) const { return some(freeway_rseq_pop(table_, c)); }
  bool push(unsigned c, u64 block) const { return freeway_rseq_push(table_, c, block) == 1; }
  unsigned pop_batch(unsigned c, void** out, unsigned count) const {
    return static_cast<unsigned>(some(freeway_rseq_pop_batch(table_, c, out, count)));
  }
  unsigned push_batch(unsigned c, void* const* blocks, unsigned count) const {
    return static_cast<unsigned>(some(freeway_rseq_push_batch(table_, c, blocks, count)));
  }
  unsigned push_run(unsigned c, u64 lowest, u64 size, unsigned count) const {
    return static_cast<unsigned>(some(freeway_rseq_push_run(table_, c, lowest, size, count)));
  }
  // The descriptor that class c was being cut from, now the caller's; 0 if none.
  u32 take_current(unsigned c) const {
    return static_cast<u32>(some(freeway_rseq_exchange(table_, offset_of_current(c), 0)));
  }
  bool put_current(unsigned c, u32 d) const { return freeway_rseq_replace(table_, offset_of_current(c), 0, d) == 0; }
  bool open(unsigned c, u64 area, u64 bytes, u64 closed) const {
    return freeway_rseq_open(table_, c, area, bytes, closed) == 1;
  }
  bool move(unsigned c, u64 old_area, u64 old_bytes, u64 distance, u64 new_bytes) const {
    return freeway_rseq_move(table_, c, {old_area, old_bytes, distance, new_bytes}) == 1;
  }
  u64 grow(u64 capacity_at, u64 expected, u64 end, u64 bytes) const {
    return some(freeway_rseq_grow(table_, capacity_at, expected, end, bytes));
  }
  bool replace(u64 offset, u64 expected, u64 value) const {
    return freeway_rseq_replace(table_, offset, expected, value) == expected;
  }

 private:
  static u64 some(u64 answer) { return answer == kNoSlab ? 0 : answer; }

  const void* table_;
};
static_assert(SlabAccess<RseqSlabs>);

}  // namespace freeway
