// SPDX-License-Identifier: MIT
#include "heap/figures.h"

#include <algorithm>
#include <fstream>

#include "guard/slot_word.h"
#include "pages/limits.h"
#include "superblock/occupancy.h"

namespace freeway_command {

using std::uint64_t;

namespace {

constexpr uint64_t kClaimed = 3;  // malloc/heap.h: Mode

uint64_t difference(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// As account.cc: while others allocate, a block may be counted as cached and, a moment later, as free.
void add_small(const Heap& heap, freeway_stats_t& stats) {
  const freeway_debug_t& d = heap.layout();
  uint64_t taken = 0, taken_bytes = 0, cached = 0;
  for (const Superblock& each : heap.superblocks()) {
    const freeway::SizeClass& k = heap.description().size_class(each.size_class);
    ++stats.superblocks;
    stats.free_in_superblocks += uint64_t{each.free} * k.size;
    taken += k.blocks - each.free;
    taken_bytes += uint64_t{k.blocks - each.free} * k.size;
  }
  for (const CachedBlock& each : heap.cached()) {
    ++cached;
    stats.cached += heap.description().size_class(each.size_class).size;
  }
  stats.live_blocks = difference(taken, cached);
  stats.live = difference(taken_bytes, stats.cached);
  stats.slow_mallocs = heap.counted(d.slab_slow_mallocs, 0);
  stats.slow_frees = heap.counted(d.slab_slow_frees, 0);
  stats.refills = heap.counted(d.slab_refills, 0);
  stats.flushes = heap.counted(d.slab_flushes, 0);
}

void add_guarded(const Heap& heap, freeway_stats_t& stats) {
  using freeway::guard::State;
  if (heap.guard_bytes() == 0) return;
  const uint64_t page = heap.guard_bytes() / (2 * heap.guard_slots().size() + 1);
  for (const GuardSlot& each : heap.guard_slots()) {
    const State state = freeway::guard::slot_word::state(each.word);
    if (state != State::kIdle) stats.mapped += page;
    if (state != State::kLive) continue;
    ++stats.guarded_blocks;
    stats.guarded += each.size;
  }
  read_or_throw(heap.memory(), reinterpret_cast<uint64_t>(heap.layout().guard_faults), &stats.guard_faults,
                sizeof(stats.guard_faults));
  stats.live += stats.guarded;
  stats.live_blocks += stats.guarded_blocks;
}

}  // namespace

freeway_stats_t stats_of(const Heap& heap) {
  freeway_stats_t stats = {};
  if (!heap.is_started()) return stats;
  const freeway_debug_t& d = heap.layout();
  const uint64_t frame = heap.description().frame_bytes();
  add_small(heap, stats);
  const uint64_t live_frames = heap.word(d.heap_live_frames), dirty_frames = heap.word(d.heap_dirty_frames);
  stats.large = difference(live_frames, heap.word(d.heap_span_frames)) * frame;
  stats.huge = heap.word(d.heap_huge_frames) * frame;
  stats.large_blocks = heap.word(d.heap_large_blocks);
  stats.live += stats.large + stats.huge;
  stats.live_blocks += stats.large_blocks;
  stats.dirty = dirty_frames * frame;
  stats.mapped = (live_frames + dirty_frames) * frame + stats.huge;
  stats.metadata = heap.word(d.heap_slabs_bytes) + heap.word(d.heap_map_leaves) * (uint64_t{4} << d.leaf_shift);
  heap.each_segment([&](uint64_t, uint64_t bytes) { stats.metadata += bytes; });
  stats.purges = heap.word(d.heap_purges);
  stats.purged = heap.word(d.heap_purged);
  const uint64_t limit = heap.word(d.heap_limit);
  stats.held = freeway::limit_word::held(limit) * frame;
  stats.hard_limit = freeway::limit_word::hard(limit) * frame;
  stats.soft_limit = heap.word(d.heap_soft_limit) * frame;
  stats.limit_refusals = heap.word(d.heap_limit_refusals);
  stats.limit_pressures = heap.word(d.heap_limit_pressures);
  add_guarded(heap, stats);
  return stats;
}

std::vector<ClassFigures> class_figures_of(const Heap& heap) {
  std::vector<ClassFigures> all(heap.layout().class_count);
  for (const Superblock& each : heap.superblocks()) {
    const freeway::SizeClass& k = heap.description().size_class(each.size_class);
    ClassFigures& figures = all[each.size_class];
    const uint64_t live = k.blocks - each.free - each.cached;
    ++figures.superblocks;
    figures.blocks += k.blocks;
    figures.free += each.free;
    figures.bytes += k.span_bytes();
    ++figures.live_tenths[freeway::occupancy::tenth_of(static_cast<freeway::u32>(live), k.blocks)];
    ++figures.taken_tenths[freeway::occupancy::tenth_of(k.blocks - each.free, k.blocks)];
  }
  for (const CachedBlock& each : heap.cached()) ++all[each.size_class].cached;
  for (unsigned c = 1; c < all.size(); ++c) {
    ClassFigures& figures = all[c];
    figures.cached = std::min(figures.cached, figures.blocks - figures.free);
    figures.live = figures.blocks - figures.free - figures.cached;
    figures.waste = figures.bytes - figures.live * heap.description().size_class(c).size;
  }
  return all;
}

uint64_t retained_bytes(const Heap& heap) {
  uint64_t frames = 0;
  for (const ArenaView& arena : heap.arenas())
    for (std::size_t i = 0; i < arena.used.size(); ++i)
      frames += freeway::popcount(arena.accessible(i) & ~arena.used[i] & ~arena.dirty[i]);
  return frames * heap.description().frame_bytes();
}

std::optional<uint64_t> resident_bytes(const Memory& memory) {
  if (!memory.is_live()) return {};
  std::ifstream file("/proc/" + std::to_string(memory.pid()) + "/statm");
  uint64_t all = 0, pages = 0;
  if (!(file >> all >> pages)) return {};
  return pages * memory.page_size();
}

std::string mode_of(const Heap& heap) {
  if (heap.word(heap.layout().heap_harden) != 0) return "hardened";
  const uint64_t mode = heap.word(heap.layout().heap_mode);
  return mode != 0 && mode != kClaimed ? "rseq" : "claimed";
}

std::string rseq_reason_of(const Heap& heap) {
  constexpr std::size_t kLongest = 200;
  if (heap.word(heap.layout().heap_mode) != kClaimed) return "";
  const uint64_t address = heap.word(heap.layout().heap_why_claimed);
  std::string text;
  for (char c; address != 0 && text.size() < kLongest; text += c)
    if (!heap.memory().read(address + text.size(), &c, 1) || c == 0) break;
  return text;
}

}  // namespace freeway_command
