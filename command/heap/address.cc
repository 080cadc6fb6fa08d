// SPDX-License-Identifier: MIT
#include "heap/address.h"

#include <algorithm>

#include "harden/births.h"
#include "look/explanation.h"
#include "pages/page_map.h"

namespace freeway_command {

namespace explanation = freeway::explanation;
using freeway::FrameInfo;
using std::uint32_t, std::uint64_t;

namespace {

// Whether the block's birth byte says that it is not live (harden/births.h). Far blocks' bytes are not looked at.
bool is_dead(const Heap& heap, unsigned c, uint64_t block) {
  namespace birth = freeway::birth;
  const freeway_debug_t& d = heap.layout();
  if (heap.word(d.heap_births_off) != 0) return false;
  const uint64_t arena = heap.word(d.heap_births_arena), bytes = heap.word(d.heap_births_bytes);
  if (block - arena >= bytes) return false;
  freeway::u8 size_class = 0, tag = 0;
  read_or_throw(heap.memory(), heap.word(d.heap_map_classes) + 2 * ((block - arena) >> d.frame_shift), &size_class, 1);
  if (size_class != c) return false;
  const unsigned shift = birth::shift_of(heap.description().size_class(c).size);
  const uint64_t byte =
      heap.word(d.heap_births_place) + d.birth_skew + (bytes >> shift) - (arena >> shift) + (block >> shift);
  read_or_throw(heap.memory(), byte, &tag, 1);
  return tag != birth::tag_of(block);
}

void small(const Heap& heap, uint64_t address, uint32_t descriptor, Explained& found) {
  found.superblock = heap.superblock_of(descriptor);
  if (found.superblock == nullptr)
    return explanation::other(found, FREEWAY_FREE_MEMORY, "a thread inside malloc or free has it in hand");
  const freeway::SizeClass& k = heap.description().size_class(found.superblock->size_class);
  found.index = explanation::small(found, k, address);
  if (found.kind == FREEWAY_SMALL_BLOCK) found.state = state_of(heap, *found.superblock, found.index, found.words);
}

// The page map's entries below an address, read in pieces.
class EntriesBelow {
 public:
  explicit EntriesBelow(const Heap& heap) : heap_(heap) {}
  FrameInfo operator()(uint64_t frame) {
    const uint64_t bytes = heap_.description().frame_bytes();
    if (frame - begin_ >= entries_.size() * bytes) {
      const uint64_t count = std::min<uint64_t>(kPiece, frame / bytes);
      begin_ = frame - (count - 1) * bytes;
      entries_ = heap_.entries(begin_, count);
    }
    return {entries_[(frame - begin_) / bytes]};
  }

 private:
  static constexpr uint64_t kPiece = 1 << 12;
  const Heap& heap_;
  uint64_t begin_ = 0;
  std::vector<uint32_t> entries_;
};

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
  Explained found = {};
  found.what = "";
  if (!heap.is_started()) return found;
  const uint64_t offset = address - heap.guard_begin(), slots = heap.guard_slots().size();
  const FrameInfo info{heap.entries(address, 1)[0]};
  const auto bytes_of = [&](FrameInfo large) {
    const uint64_t guard = large.is_guarded() ? heap.word(heap.layout().heap_guard_bytes) : 0;
    return large.frames() * heap.description().frame_bytes() - guard;
  };
  if (offset < heap.guard_bytes()) {
    const auto look = [&](uint64_t slot) { return heap.guard_slots()[slot]; };
    const uint64_t page = std::max<uint64_t>(1, heap.guard_bytes() / (2 * slots + 1));
    explanation::guarded(found, freeway::guard::nearest(address, offset, page, slots, look), address);
  } else if (info.kind() == FrameInfo::kSmall) {
    small(heap, address, info.value(), found);
  } else if (info.is_of_heap()) {
    explanation::other(found, FREEWAY_SMALL_BLOCK, "in a heap of the program's own");
  } else if (!explanation::large(found, address, EntriesBelow(heap), bytes_of)) {
    explanation::no_block(found, heap.walk(), address);
    for (const SlabView& slab : heap.slabs())
      if (address - slab.address < heap.layout().slab_bytes) found.words = std::string(found.what) + ": " + slab.name;
  }
  if (found.words.empty()) found.words = found.what;
  return found;
}

}  // namespace freeway_command
