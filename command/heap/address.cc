// SPDX-License-Identifier: MIT
#include "heap/address.h"

#include <algorithm>

#include "harden/births.h"
#include "harden/guard_word.h"
#include "pages/chunk_word.h"
#include "pages/page_map.h"

namespace freeway_command {

using freeway::FrameInfo;
using std::uint32_t, std::uint64_t;

namespace {

void place(Explained& found, uint64_t begin, uint64_t size, uint64_t address) {
  found.begin = begin;
  found.size = size;
  found.offset = static_cast<std::int64_t>(address - begin);
}

// Whether the block's birth byte says that it is not live (harden/births.h). Far blocks' bytes are not looked at.
bool is_dead(const Heap& heap, unsigned c, uint64_t block) {
  namespace birth = freeway::birth;
  const freeway_debug_t& d = heap.layout();
  if (heap.word(d.heap_births_off) != 0) return false;
  const uint64_t arena = heap.word(d.heap_births_arena), bytes = heap.word(d.heap_births_bytes);
  if (block - arena >= bytes) return false;
  freeway::u8 size_class = 0, tag = 0;
  read_or_throw(heap.memory(), heap.word(d.heap_map_classes) + ((block - arena) >> d.frame_shift), &size_class, 1);
  if (size_class != c) return false;
  const unsigned shift = birth::shift_of(heap.description().size_class(c).size);
  const uint64_t byte =
      heap.word(d.heap_births_place) + d.birth_skew + (bytes >> shift) - (arena >> shift) + (block >> shift);
  read_or_throw(heap.memory(), byte, &tag, 1);
  return tag != birth::tag_of(block);
}

Explained small(const Heap& heap, uint64_t address, uint32_t descriptor) {
  Explained found;
  found.superblock = heap.superblock_of(descriptor);
  if (found.superblock == nullptr) {
    found.kind = FREEWAY_FREE_MEMORY;
    found.what = "a thread inside malloc or free has it in hand";
    return found;
  }
  const freeway::SizeClass& k = heap.description().size_class(found.superblock->size_class);
  const uint64_t span = k.span_of(address);
  found.index = k.index_of(address - span);
  if (found.index >= k.blocks) {
    found.kind = FREEWAY_FREE_MEMORY;
    found.what = "the unused end of a superblock";
    return found;
  }
  found.kind = FREEWAY_SMALL_BLOCK;
  place(found, span + uint64_t{found.index} * k.size, k.size, address);
  found.state = state_of(heap, *found.superblock, found.index, found.what);
  return found;
}

// Large blocks are known by their first frame: it is looked for as far below as freeway_explain does.
bool explain_large(const Heap& heap, uint64_t address, Explained& found) {
  constexpr uint64_t kFurthest = uint64_t{1} << 16, kPiece = 1 << 12;
  const uint64_t frame_bytes = heap.description().frame_bytes(), last = address / frame_bytes;
  for (uint64_t distance = 0; distance < kFurthest && distance < last;) {
    const uint64_t count = std::min(std::min(kPiece, kFurthest - distance), last - distance);
    const auto entries = heap.entries((last - distance - count + 1) * frame_bytes, count);
    for (uint64_t i = 0; i < count; ++i, ++distance) {
      const FrameInfo info{entries[count - 1 - i]};
      if (info.kind() == FrameInfo::kNothing) continue;
      if (info.kind() == FrameInfo::kSmall || info.frames() <= distance) return false;
      const uint64_t guard = info.is_guarded() ? heap.word(heap.layout().heap_guard_bytes) : 0;
      found.kind = FREEWAY_LARGE_BLOCK;
      found.state = FREEWAY_LIVE;
      place(found, (last - distance) * frame_bytes, info.frames() * frame_bytes - guard, address);
      if (address >= found.begin + found.size)
        found.what = "on the guard page behind it";
      else if (info.kind() == FrameInfo::kHuge)
        found.what = "a mapping of its own";
      return true;
    }
  }
  return false;
}

Explained metadata(const std::string& what) {
  Explained found;
  found.kind = FREEWAY_METADATA;
  found.what = what;
  return found;
}

Explained rest(const Heap& heap, uint64_t address) {
  const freeway_debug_t& d = heap.layout();
  Explained found;
  for (const ArenaView& arena : heap.arenas()) {
    const uint64_t offset = address - arena.base();
    if (offset >= arena.bytes()) continue;
    const std::size_t chunk = offset / freeway::kChunkSize, frame = offset % freeway::kChunkSize / freeway::kFrameSize;
    if (offset >= arena.committed() || (arena.accessible(chunk) >> frame & 1) == 0) return found;
    const bool used = (arena.used(chunk) >> frame & 1) != 0;
    found.kind = FREEWAY_FREE_MEMORY;
    found.what = used ? "a thread inside malloc or free has it in hand" : "a free frame";
    return found;
  }
  bool is_descriptors = false;
  heap.walk().each_segment([&](uint32_t, uint64_t begin, uint64_t bytes) { is_descriptors |= address - begin < bytes; });
  if (is_descriptors) return metadata("descriptors");
  if (address - reinterpret_cast<uint64_t>(d.heap) < d.heap_bytes) return metadata("the heap's tables");
  if (address - reinterpret_cast<uint64_t>(d.hot) < d.hot_bytes) return metadata("the fast path's tables");
  for (const SlabView& slab : heap.slabs())
    if (address - slab.address < d.slab_bytes) return metadata("a slab of magazines: " + slab.name);
  return found;
}

// The slot's block, and how far from it the address is: negative before it.
struct Near {
  const GuardSlot* slot = nullptr;
  bool live = false;
  uint64_t distance = 0;
};

Near near_slot(const Heap& heap, uint64_t address, std::size_t i) {
  namespace slot_word = freeway::guard::slot_word;
  const GuardSlot& slot = heap.guard_slots()[i];
  if (!slot_word::was_used(slot.word)) return {};
  const uint64_t end = slot.address + slot.size;
  const uint64_t distance = address < slot.address ? slot.address - address
                            : address < end        ? address - slot.address
                                                   : address - end + 1;
  return {&slot, slot_word::is_live(slot.word), distance};
}

// On a fence: of the blocks on both sides the live one, else the closer one (harden/guarded.cc).
Near near(const Heap& heap, uint64_t address) {
  const std::size_t slots = heap.guard_slots().size();
  const uint64_t page = heap.guard_bytes() / (2 * slots + 1);
  const uint64_t number = page == 0 ? 0 : (address - heap.guard_begin()) / page;
  if (number > 2 * slots) return {};
  if (number % 2 == 1) return near_slot(heap, address, number / 2);
  const Near before = number == 0 ? Near() : near_slot(heap, address, number / 2 - 1);
  const Near after = number / 2 == slots ? Near() : near_slot(heap, address, number / 2);
  if (before.slot == nullptr || after.slot == nullptr) return after.slot == nullptr ? before : after;
  if (before.live != after.live) return before.live ? before : after;
  return before.distance <= after.distance ? before : after;
}

Explained guarded(const Heap& heap, uint64_t address) {
  const Near found = near(heap, address);
  if (found.slot == nullptr) return metadata("pages for guarded blocks");
  Explained explained;
  explained.kind = FREEWAY_GUARDED_BLOCK;
  const bool known = found.live || freeway::guard::slot_word::is_idle(found.slot->word);
  explained.state = !known ? FREEWAY_STATE_UNKNOWN : found.live ? FREEWAY_LIVE : FREEWAY_FREE;
  place(explained, found.slot->address, found.slot->size, address);
  if (!known) return explained;
  explained.guarded = *found.slot;
  if (found.live) explained.guarded.freed_by = explained.guarded.freed_in = 0;  // of the block before
  return explained;
}

}  // namespace

freeway_state_t state_of(const Heap& heap, const Superblock& superblock, uint32_t index, std::string& what) {
  if (heap.is_free(superblock, index)) return FREEWAY_FREE;
  const unsigned c = superblock.size_class;
  const uint64_t block = superblock.span + uint64_t{index} * heap.description().size_class(c).size;
  for (const CachedBlock& each : heap.cached())
    if (each.address == block && each.size_class == c) {
      what = (each.rests ? "at rest since its free: " : "in a magazine: ") + heap.slabs()[each.slab].name;
      return FREEWAY_FREE;
    }
  if (!is_dead(heap, c, block)) return FREEWAY_LIVE;
  what = "in the hand of a thread inside malloc or free";
  return FREEWAY_FREE;
}

Explained explain(const Heap& heap, uint64_t address) {
  if (!heap.is_started()) return {};
  if (address - heap.guard_begin() < heap.guard_bytes()) return guarded(heap, address);
  const FrameInfo info{heap.entries(address, 1)[0]};
  if (info.kind() == FrameInfo::kSmall) return small(heap, address, info.value());
  if (Explained found; explain_large(heap, address, found)) return found;
  return rest(heap, address);
}

}  // namespace freeway_command
