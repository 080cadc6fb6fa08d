// SPDX-License-Identifier: MIT
// account.h: the sums of a heap, as a walk (walk.h) meets it: by size class, and as freeway_stats has them.
//
// While others allocate, a block may be counted as cached and, a moment later, as free: so differences stop at 0.
#pragma once

#include "freeway/freeway.h"
#include "harden/guard_word.h"
#include "look/walk.h"
#include "pages/limits.h"
#include "superblock/occupancy.h"

namespace freeway::look {

constexpr u64 difference(u64 a, u64 b) { return a > b ? a - b : 0; }

template <Reader R> u32 cached_blocks(const Walk<R>& walk, const typename Walk<R>::Part& slab, unsigned c) {
  u32 blocks = 0;
  walk.each_cached(slab, c, [&](u64, bool) { ++blocks; });
  return blocks;
}

// Counts of one size class; of blocks, unless they say otherwise.
struct ClassAccount {
  u64 superblocks, sampled, blocks, free, cached;  // sampled: superblocks of blocks that a profile samples
  u64 occupancy[occupancy::kTenths];               // superblocks of which up to 10 %, 20 %, … are taken: live or cached
  u64 slow_mallocs, slow_frees, refills, flushes;

  u64 live() const { return difference(blocks - free, cached); }

  template <View V> void add(const DescriptorView<V>& superblock) {
    const u32 all = superblock.shape().blocks, free_blocks = superblock.free_blocks();
    ++superblocks;
    sampled += superblock.is_sampled();
    blocks += all;
    free += free_blocks;
    ++occupancy[occupancy::tenth_of(all - free_blocks, all)];
  }
  template <Reader R> void add_counters(const Walk<R>& walk, const typename Walk<R>::Part& slab, unsigned c) {
    const freeway_debug_t& d = walk.reader().layout();
    slow_mallocs += word(slab, d.slab_slow_mallocs, c);
    slow_frees += word(slab, d.slab_slow_frees, c);
    refills += word(slab, d.slab_refills, c);
    flushes += word(slab, d.slab_flushes, c);
  }
};

namespace detail {

template <Reader R> void add_small(const Walk<R>& walk, freeway_stats_t& stats) {
  u64 taken = 0, taken_bytes = 0, cached = 0;
  walk.each_superblock([&](const typename Walk<R>::Descriptor& each) {
    const u64 free = each.free_blocks(), size = each.shape().size;
    ++stats.superblocks;
    stats.free_in_superblocks += free * size;
    taken += each.shape().blocks - free;
    taken_bytes += (each.shape().blocks - free) * size;
  });
  ClassAccount all{};
  walk.each_slab([&](const char*, u32, const typename Walk<R>::Part& slab) {
    for (unsigned c = 1; c < walk.reader().layout().class_count; ++c) {
      const u64 blocks = cached_blocks(walk, slab, c);
      cached += blocks;
      stats.cached += blocks * walk.reader().size_class(c).size;
      all.add_counters(walk, slab, c);
    }
  });
  stats.live_blocks = difference(taken, cached);
  stats.live = difference(taken_bytes, stats.cached);
  stats.slow_mallocs = all.slow_mallocs;
  stats.slow_frees = all.slow_frees;
  stats.refills = all.refills;
  stats.flushes = all.flushes;
}

template <Reader R> void add_pages(const Walk<R>& walk, freeway_stats_t& stats) {
  const freeway_debug_t& d = walk.reader().layout();
  const u64 live_frames = walk.word(d.heap_live_frames), dirty_frames = walk.word(d.heap_dirty_frames);
  stats.large = difference(live_frames, walk.word(d.heap_span_frames)) * kFrameSize;
  stats.huge = walk.word(d.heap_huge_frames) * kFrameSize;
  stats.large_blocks = walk.word(d.heap_large_blocks);
  stats.live += stats.large + stats.huge;
  stats.live_blocks += stats.large_blocks;
  stats.dirty = dirty_frames * kFrameSize;
  stats.mapped = (live_frames + dirty_frames) * kFrameSize + stats.huge;
  stats.metadata = walk.word(d.heap_slabs_bytes) + walk.word(d.heap_map_leaves) * (u64{4} << d.leaf_shift);
  walk.each_segment([&](u32, u64, u64 bytes) { stats.metadata += bytes; });
  walk.each_word(d.heap_record_ends, [&](u32, u64 end) { stats.metadata += range_word::end_of(end); });
  stats.purges = walk.word(d.heap_purges);
  stats.purged = walk.word(d.heap_purged);
  const u64 limit = walk.word(d.heap_limit);
  stats.held = limit_word::held(limit) * kFrameSize;
  stats.hard_limit = limit_word::hard(limit) * kFrameSize;
  stats.soft_limit = walk.word(d.heap_soft_limit) * kFrameSize;
  stats.limit_refusals = walk.word(d.heap_limit_refusals);
  stats.limit_pressures = walk.word(d.heap_limit_pressures);
}

template <Reader R> void add_guarded(const Walk<R>& walk, freeway_stats_t& stats) {
  const freeway_debug_t& d = walk.reader().layout();
  const u64 page = walk.guard_bytes() / (2 * u64{d.guard_slot_count} + 1);
  if (page == 0) return;
  walk.each_guard_slot([&](const typename Walk<R>::Part& slots, u32 i) {
    const u64 state = word(slots, d.guard_word, i);
    if (!guard::slot_word::is_idle(state)) stats.mapped += page;
    if (!guard::slot_word::is_live(state)) return;
    ++stats.guarded_blocks;
    stats.guarded += word(slots, d.guard_size, i);
  });
  stats.guard_faults = walk.reader().view(reinterpret_cast<u64>(d.guard_faults), 8).word(0, 8);
  stats.live += stats.guarded;
  stats.live_blocks += stats.guarded_blocks;
}

}  // namespace detail

// Fills in every figure; `stats` is all 0.
template <Reader R> void add_up(const Walk<R>& walk, freeway_stats_t& stats) {
  if (!walk.is_started()) return;
  detail::add_small(walk, stats);
  detail::add_pages(walk, stats);
  detail::add_guarded(walk, stats);
}

// The way of calls, as statistics name it.
constexpr u64 kSpareMode = 3;  // of the word heap_mode, where calls work on spare slabs; 0: not decided yet
template <Reader R> const char* mode_of(const Walk<R>& walk) {
  const freeway_debug_t& d = walk.reader().layout();
  if (walk.word(d.heap_harden) != 0) return "hardened";
  const u64 mode = walk.word(d.heap_mode);
  return mode != 0 && mode != kSpareMode ? "rseq" : "spare";
}

// Address space that was made accessible and holds no memory now: free frames that are not dirty.
template <Reader R> u64 retained_bytes(const Walk<R>& walk) {
  const freeway_debug_t& d = walk.reader().layout();
  u64 bytes = 0;
  walk.each_arena([&](const typename Walk<R>::Arena& arena) { bytes += arena.accessible_bytes(); });
  return difference(bytes, (walk.word(d.heap_live_frames) + walk.word(d.heap_dirty_frames)) * kFrameSize);
}

}  // namespace freeway::look
