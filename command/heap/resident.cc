// SPDX-License-Identifier: MIT
#include "heap/resident.h"

#include <algorithm>

#include "heap/figures.h"
#include "heap/samples.h"
#include "pages/chunk_word.h"
#include "pages/page_map.h"

namespace freeway_command {

using freeway::FrameInfo;
using std::uint32_t, std::uint64_t;

namespace {

// The kind of a frame that is neither a superblock's nor a large block's.
Kind kind_of(const ArenaView& arena, uint64_t frame) {
  const std::size_t chunk = frame / freeway::kChunkFrames, bit = frame % freeway::kChunkFrames;
  if ((arena.accessible(chunk) >> bit & 1) == 0) return kHole;
  if ((arena.used(chunk) >> bit & 1) != 0) return kInHand;
  return (arena.dirty(chunk) >> bit & 1) != 0 ? kDirty : kClean;
}

}  // namespace

std::vector<Run> runs_of(const Heap& heap, const ArenaView& arena) {
  const uint64_t frame_bytes = heap.description().frame_bytes(), count = arena.committed() / frame_bytes;
  const auto entries = heap.entries(arena.base(), count);
  std::vector<Run> runs;
  for (uint64_t frame = 0; frame < count;) {
    const FrameInfo info{entries[frame]};
    Run run{frame, 1, kClean, nullptr};
    const Superblock* superblock = info.kind() == FrameInfo::kSmall ? heap.superblock_of(info.value()) : nullptr;
    if (superblock != nullptr && superblock->span == arena.base() + frame * frame_bytes) {
      run = {frame, heap.description().size_class(superblock->size_class).span_frames, kSmall, superblock};
    } else if (info.kind() == FrameInfo::kLarge && info.frames() != 0) {
      run = {frame, info.frames(), kLarge, nullptr};
    } else {
      run.kind = kind_of(arena, frame);
    }
    run.frames = std::min(run.frames, count - frame);
    frame += run.frames;
    if (run.kind < kLarge && !runs.empty() && runs.back().kind == run.kind) runs.back().frames += run.frames;
    else runs.push_back(run);
  }
  return runs;
}

namespace {

// Adds up what is in memory; false as soon as the kernel does not say it.
class Sum {
 public:
  explicit Sum(const Heap& heap) : heap_(heap) {}

  // Bytes of [begin, begin + bytes).
  uint64_t of(uint64_t begin, uint64_t bytes) {
    const std::optional<uint64_t> here = heap_.memory().resident(begin, begin + bytes);
    known_ &= here.has_value();
    return here.value_or(0);
  }
  bool known() const { return known_; }

  // Live blocks are in memory, as a rule, and cached ones were: the rest of what is there is other free blocks.
  void add_superblock(const Superblock& s, uint64_t begin, uint64_t bytes, Contents& sum) {
    const freeway::SizeClass& k = heap_.description().size_class(s.size_class);
    const uint64_t there = of(begin, bytes), taken = k.blocks - s.free;
    const uint64_t live = std::min<uint64_t>(there, (taken - std::min<uint64_t>(taken, s.cached)) * k.size);
    const uint64_t cached = std::min<uint64_t>(there - live, s.cached * k.size);
    for (Parts* parts : {static_cast<Parts*>(&sum), &sum.by_class[s.size_class]}) {
      parts->live += live;
      parts->cached += cached;
      parts->stuck += there - live - cached;
    }
  }

 private:
  const Heap& heap_;
  bool known_ = true;
};

}  // namespace

std::optional<Contents> resident_of(const Heap& heap) {
  Contents sum;
  Sum memory(heap);
  if (!heap.is_started()) return heap.memory().is_live() ? std::optional(sum) : std::nullopt;
  const uint64_t frame = heap.description().frame_bytes();
  for (const ArenaView& arena : heap.arenas()) {
    for (const Run& run : runs_of(heap, arena)) {
      const uint64_t begin = arena.base() + run.frame * frame, bytes = run.frames * frame;
      if (run.kind == kSmall) memory.add_superblock(*run.superblock, begin, bytes, sum);
      else (run.kind == kLarge || run.kind == kInHand ? sum.live : sum.free) += memory.of(begin, bytes);
    }
  }
  for (const auto& [address, bits] : heap.outside())
    if (const FrameInfo info{bits}; info.kind() == FrameInfo::kHuge)
      sum.live += memory.of(address, info.frames() * frame);
  sum.live += memory.of(heap.guard_begin(), heap.guard_bytes());
  const freeway_debug_t& d = heap.layout();
  heap.walk().each_segment([&](uint32_t, uint64_t begin, uint64_t bytes) { sum.metadata += memory.of(begin, bytes); });
  for (const SlabView& each : heap.slabs()) sum.metadata += memory.of(each.address, d.slab_bytes);
  sum.metadata += memory.of(heap.word(d.heap_map_infos), 4 * heap.word(d.heap_map_frames));
  Samples(heap).each_table([&](uint64_t begin, uint64_t bytes) { sum.metadata += memory.of(begin, bytes); });
  return memory.known() ? std::optional(sum) : std::nullopt;
}

Contents sizes_of(const Heap& heap) {
  const freeway_stats_t stats = stats_of(heap.walk());
  Contents sizes{{stats.live, stats.cached, stats.free_in_superblocks}, stats.dirty, stats.metadata};
  const auto classes = class_figures_of(heap);
  for (unsigned c = 1; c < classes.size(); ++c) {
    const uint64_t size = heap.description().size_class(c).size;
    const uint64_t live = classes[c].live() * size, cached = classes[c].cached * size;
    sizes.by_class[c] = {live, cached, classes[c].bytes - live - cached};
  }
  return sizes;
}

}  // namespace freeway_command
