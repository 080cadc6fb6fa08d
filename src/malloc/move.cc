// SPDX-License-Identifier: MIT
// move.cc: which blocks a program should move so that superblocks become empty (decision 039).
#include <string.h>

#include "harden/guarded.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "malloc/large.h"
#include "malloc/walk.h"

namespace freeway {

namespace {

using Desc = Descriptor<Machine>;
using bitmap::free_blocks;

// Whether the superblock is neither full nor held by anybody, and how many of its blocks are taken then.
bool is_candidate(const Desc& d, unsigned c, u32& taken) {
  const SizeClass& k = kSizeClasses[c];
  const u64 a = d.anchor.load_relaxed();  // OPTIMISTIC: move
  if (anchor::is_held(a) || anchor::is_unlisted(a) || !anchor::is_in_use(a, c, k.words)) return false;
  if (d.kind.load_relaxed() != kOrdinary) return false;  // malloc never allocates from those of sampled blocks
  const u32 free = free_blocks(d, k);
  taken = k.blocks - free;
  return free != 0;
}

// The frames of all arenas, for ClassUsage. A place: the arena's number:32 | a frame's number in it:32.
class FrameWalk {
 public:
  static constexpr unsigned kChunksAStep = 64;  // of frames that nobody uses

  explicit FrameWalk(Heap& heap) : heap_(heap) {}

  bool is_end(u64 place) { return arena_of(place) == nullptr; }

  // Behind the superblock or large block that begins at the place, or the frame, and unused frames behind that.
  u64 behind(u64 place) {
    const Arena<Machine>& arena = *arena_of(place);
    const std::size_t first = frame_of(place), end = end_of(arena);
    if (first >= end) return ((place >> 32) + 1) << 32;
    const FrameInfo info = info_at(arena, first);
    std::size_t frame = first + 1;
    if (info.kind() == FrameInfo::kLarge) frame = first + clamp(info.frames(), 1, end);
    else if (const Desc* d = superblock_at(arena, first, info))
      frame = first + kSizeClasses[d->size_class.load_relaxed()].span_frames;
    for (unsigned chunks = 0; chunks < kChunksAStep && frame < end && is_barren(arena, frame); ++chunks)
      frame += kChunkFrames;
    return place - first + frame;
  }

  template <class F> void count(u64 place, F&& f) {
    const Arena<Machine>& arena = *arena_of(place);
    const std::size_t frame = frame_of(place);
    if (frame >= end_of(arena)) return;
    const Desc* d = superblock_at(arena, frame, info_at(arena, frame));
    const unsigned c = d == nullptr ? 0 : d->size_class.load_relaxed();
    u32 taken;
    if (c != 0 && is_candidate(*d, c, taken)) f(c, taken);
  }

 private:
  FrameInfo info_at(const Arena<Machine>& arena, std::size_t frame) {
    return heap_.substrate().map().get_unowned(arena.base() + frame * kFrameSize);  // OPTIMISTIC: move
  }
  // The superblock that begins at the frame; null: none does.
  const Desc* superblock_at(const Arena<Machine>& arena, std::size_t frame, FrameInfo info) {
    if (info.kind() != FrameInfo::kSmall) return nullptr;
    const Desc& d = heap_.descriptor(info.value());
    return d.span.load_relaxed() == arena.base() + frame * kFrameSize ? &d : nullptr;
  }
  // Whether a chunk begins at the frame, and none of its frames is used.
  static bool is_barren(const Arena<Machine>& arena, std::size_t frame) {
    return frame % kChunkFrames == 0 && arena.used_word(frame / kChunkFrames) == 0;
  }
  static std::size_t frame_of(u64 place) { return place & low_bits(32); }
  static std::size_t end_of(const Arena<Machine>& arena) { return arena.committed() / kFrameSize; }
  const Arena<Machine>* arena_of(u64 place) { return heap_.substrate().frames().arena_at(place >> 32); }

  Heap& heap_;
};

}  // namespace

u32 Heap::free_in(u32 d) const {
  const Desc& desc = backing_.descriptor(d);
  return free_blocks(desc, kSizeClasses[desc.size_class.load_relaxed()]);
}

bool Heap::is_left(unsigned c, const void* block) {
  // The block is in the caller's hands.
  const FrameInfo info = substrate_->map().get(reinterpret_cast<uptr>(block));
  u32 taken;
  return info.kind() == FrameInfo::kSmall && is_candidate(backing_.descriptor(info.value()), c, taken) &&
         occupancy::is_worth_leaving(taken, kSizeClasses[c].blocks, usage.of(c));
}

namespace {

// Where blocks are placed at random (FREEWAY_HARDEN) superblocks do not become empty by moving.
bool should_move_small(Heap& heap, uptr block, u32 descriptor) {
  const unsigned c = heap.descriptor(descriptor).size_class.load_relaxed();
  const u32 index = kSizeClasses[c].block_at(block);
  if (heap.is_careful() || index == SizeClass::kNoBlock || heap.superblocks().is_free(descriptor, index)) return false;
  u32 taken;
  if (!is_candidate(heap.descriptor(descriptor), c, taken)) return false;
  heap.usage.advance(FrameWalk(heap));
  if (!occupancy::is_worth_leaving(taken, kSizeClasses[c].blocks, heap.usage.of(c)) || !heap.clear_way(c)) return false;
  // That may have made the block's own superblock the one that malloc allocates from.
  return !anchor::is_held(heap.descriptor(descriptor).anchor.load_relaxed());  // OPTIMISTIC: move
}

void small_block_info(Heap& heap, uptr block, u32 descriptor, freeway_block_info_t& info) {
  const unsigned c = heap.descriptor(descriptor).size_class.load_relaxed();
  const SizeClass& k = kSizeClasses[c];
  const u32 index = k.block_at(block);
  const char* what;
  if (index == SizeClass::kNoBlock || state_of(heap, c, descriptor, index, block, what) != FREEWAY_LIVE) return;
  heap.usage.advance(FrameWalk(heap));
  info.kind = FREEWAY_SMALL_BLOCK;
  info.size = k.size;
  info.superblock_size = k.span_bytes();
  info.superblock_blocks = k.blocks;
  info.superblock_live = k.blocks - heap.free_in(descriptor);
  info.class_permille = occupancy::permille(heap.usage.of(c), k.blocks);
}

}  // namespace

bool family::should_move(uptr address) {
  if (!process_malloc.open()) return false;
  const FrameInfo frame = process_malloc.map().get_unowned(address);  // OPTIMISTIC: explain
  return frame.kind() == FrameInfo::kSmall && should_move_small(process_malloc.heap(), address, frame.value());
}

void family::block_info(uptr address, freeway_block_info_t& info) {
  memset(&info, 0, sizeof(info));
  if (!process_malloc.start()) return;
  const FrameInfo frame = process_malloc.map().get_unowned(address);  // OPTIMISTIC: explain
  if (frame.kind() == FrameInfo::kSmall) return small_block_info(process_malloc.heap(), address, frame.value(), info);
  if (frame.is_of_heap()) return heaps::fill_block_info(address, frame, info);
  const bool is_large = frame.kind() != FrameInfo::kNothing && begins_large(address);
  if (is_large) info.size = large_bytes(frame);
  else if (guard::owns(address)) info.size = guard::usable(address);
  if (info.size == 0) return;
  info.kind = is_large ? FREEWAY_LARGE_BLOCK : FREEWAY_GUARDED_BLOCK;
  info.superblock_size = is_large ? frame.frames() * kFrameSize : vm::page_size();
  info.superblock_blocks = info.superblock_live = 1;
  info.class_permille = 1000;
}

}  // namespace freeway
