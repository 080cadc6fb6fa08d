// SPDX-License-Identifier: MIT
// heap.cc: superblocks, arenas and guarded blocks; slabs are in slabs.cc.
#include "heap/heap.h"

#include <algorithm>

#include "pages/chunk_word.h"
#include "pages/committed_range.h"
#include "report.h"
#include "superblock/anchor.h"

namespace freeway_command {

using std::uint32_t, std::uint64_t;
namespace range_word = freeway::range_word;

namespace {

[[noreturn]] void damaged(const char* what) {
  throw Failure(kUnwell, std::string("the heap is damaged: ") + what +
                             " cannot be true (see `freeway_audit`, or a core file "
                             "of an earlier moment)");
}

template <class T>
T at(const std::vector<char>& memory, uint64_t offset) {
  if (offset > memory.size() || sizeof(T) > memory.size() - offset) damaged("the description of the heap");
  T value;
  std::memcpy(&value, &memory[offset], sizeof(value));
  return value;
}

}  // namespace

uint64_t ArenaView::accessible(std::size_t chunk) const {
  const uint64_t begin = chunk * freeway::kChunkSize;
  const auto frames_below = [&](uint64_t offset) {
    return freeway::low_bits(
        static_cast<unsigned>((std::clamp(offset, begin, begin + freeway::kChunkSize) - begin) / freeway::kFrameSize));
  };
  uint64_t bits = frames_below(committed);
  for (const auto& [from, to] : holes) bits &= ~(frames_below(to) & ~frames_below(from));
  return bits;
}

Heap::Heap(const Memory& memory) : memory_(memory), description_(memory) {
  if (word(layout().heap_map_primary) == 0) return;  // nothing was ever allocated
  has_beds_ = word(layout().heap_harden) != 0;
  read_segments();
  read_slabs();
  read_arenas();
  read_guard();
  assign_cached();
}

void Heap::read_arenas() {
  read_arena(reinterpret_cast<uint64_t>(layout().heap) + layout().heap_arena.offset);
  for (const uint64_t address : description_.heap_row(memory_, layout().heap_arenas)) {
    if (address == 0) break;
    read_arena(address);
  }
}

void Heap::read_arena(uint64_t address) {
  const freeway_debug_t& d = layout();
  const Object object(memory_, address, d.heap_arena.size);
  ArenaView arena{.base = object.word(d.arena_base),
                  .bytes = object.word(d.arena_bytes),
                  .committed = 0,
                  .holes = {},
                  .used = {},
                  .dirty = {}};
  const uint64_t watermark = object.word(d.arena_watermark);
  arena.committed = range_word::end_of(watermark);
  if (arena.committed > arena.bytes || arena.base + arena.bytes < arena.base) damaged("the length of an arena");
  for (unsigned i = 0; i < range_word::holes_of(watermark) && i < d.arena_holes.count; ++i) {
    const uint64_t hole = object.word(d.arena_holes, i);
    arena.holes.emplace_back(range_word::hole_begin(hole), range_word::hole_end(hole));
  }
  const std::size_t chunks = freeway::ceil_div(arena.committed, freeway::kChunkSize);
  const auto memory = read_row<char>(memory_, object.word(d.arena_chunks), chunks * d.chunk_bytes);
  for (std::size_t i = 0; i < chunks; ++i) {
    arena.used.push_back(at<uint64_t>(memory, i * d.chunk_bytes + d.chunk_used.offset));
    arena.dirty.push_back(at<uint64_t>(memory, i * d.chunk_bytes + d.chunk_dirty.offset));
  }
  arenas_.push_back(std::move(arena));
}

void Heap::read_segments() {
  const freeway_debug_t& d = layout();
  const auto packed = description_.heap_row(memory_, d.heap_segments);
  const auto ends = description_.heap_row(memory_, d.heap_segment_ends);
  const uint64_t end = word(d.heap_units);
  const uint64_t most = uint64_t{d.unit_bytes} << d.segment_shift;
  for (std::size_t i = 0; i < packed.size() && i < ends.size(); ++i) {
    const uint64_t base = freeway::align_down(packed[i], description_.frame_bytes());
    const uint64_t bytes = base == 0 ? 0 : range_word::end_of(ends[i]);
    if (bytes > most) damaged("the length of a segment");
    segments_.emplace_back(base, bytes);
    const uint64_t first = uint64_t{i} << d.segment_shift;
    if (first >= end || bytes == 0) continue;
    const uint64_t behind = std::min(end - first, bytes / d.unit_bytes);
    const auto memory = read_row<char>(memory_, base, behind * d.unit_bytes);
    read_descriptors(memory, static_cast<uint32_t>(first), i == 0 ? 1 : 0, static_cast<uint32_t>(behind));
  }
}

// Units [from, end) of a segment whose first unit's index is `first`.
void Heap::read_descriptors(const std::vector<char>& segment, uint32_t first, uint32_t from, uint32_t end) {
  namespace anchor = freeway::anchor;
  const freeway_debug_t& d = layout();
  for (uint32_t unit = from; unit < end;) {
    const uint64_t here = uint64_t{unit} * d.unit_bytes;
    const bool fits = here + d.descriptor_bytes <= segment.size();
    const uint32_t c = fits ? at<uint32_t>(segment, here + d.descriptor_class.offset) : 0;
    if (c == 0 || c >= d.class_count) {
      ++unit;
      continue;
    }
    const freeway::SizeClass& k = description_.size_class(c);
    const uint64_t bytes = d.descriptor_bytes + freeway::align_up(k.words * 8, d.unit_bytes);
    if (here + bytes > segment.size()) break;
    const uint64_t a = at<uint64_t>(segment, here + d.descriptor_anchor.offset);
    if (a != 0 && (anchor::is_held(a) || !anchor::is_empty(a, c, k.words))) {
      Superblock found{.descriptor = first + unit,
                       .size_class = c,
                       .node = at<uint32_t>(segment, here + d.descriptor_node.offset),
                       .free = 0,
                       .cached = 0,
                       .anchor = a,
                       .span = at<uint64_t>(segment, here + d.descriptor_span.offset),
                       .words = words_.size()};
      for (unsigned w = 0; w < k.words; ++w) {
        words_.push_back(at<uint64_t>(segment, here + d.descriptor_words.offset + 8 * w));
        found.free += freeway::popcount(words_.back());
      }
      found.free = std::min(found.free, k.blocks);
      by_span_.emplace(found.span, superblocks_.size());
      by_descriptor_.emplace(found.descriptor, superblocks_.size());
      superblocks_.push_back(found);
    }
    unit += static_cast<uint32_t>(freeway::ceil_div(bytes, d.unit_bytes));
  }
}

const Superblock* Heap::superblock_at(uint64_t span) const {
  const auto found = by_span_.find(span);
  return found == by_span_.end() ? nullptr : &superblocks_[found->second];
}

const Superblock* Heap::superblock_of(uint32_t descriptor) const {
  const auto found = by_descriptor_.find(descriptor);
  return found == by_descriptor_.end() ? nullptr : &superblocks_[found->second];
}

void Heap::read_guard() {
  const freeway_debug_t& d = layout();
  const Object range(memory_, reinterpret_cast<uint64_t>(d.guard_range), 16);
  guard_begin_ = range.word(d.guard_range_begin);
  guard_bytes_ = range.word(d.guard_range_bytes);
  if (guard_bytes_ == 0) return;
  const Object slots(memory_, reinterpret_cast<uint64_t>(d.guard_slots),
                     std::size_t{d.guard_word.stride} * d.guard_slot_count);
  for (unsigned i = 0; i < d.guard_slot_count; ++i)
    guard_slots_.push_back({slots.word(d.guard_word, i), slots.word(d.guard_address, i), slots.word(d.guard_size, i),
                            slots.word(d.guard_allocated_by, i), slots.word(d.guard_allocated_in, i),
                            slots.word(d.guard_freed_by, i), slots.word(d.guard_freed_in, i)});
}

std::vector<uint32_t> Heap::entries(uint64_t address, std::size_t frames) const {
  const freeway_debug_t& d = layout();
  const uint64_t primary = word(d.heap_map_primary), count = word(d.heap_map_frames), infos = word(d.heap_map_infos);
  const uint64_t leaf_frames = uint64_t{1} << d.leaf_shift;
  std::vector<uint32_t> all;
  for (uint64_t frame = address >> d.frame_shift; frames > 0;) {
    const uint64_t inside = frame - (primary >> d.frame_shift);
    uint64_t here, from = 0;
    if (inside < count) {
      here = std::min<uint64_t>(frames, count - inside);
      from = infos + 4 * inside;
    } else {
      here = std::min<uint64_t>(frames, leaf_frames - frame % leaf_frames);
      if (inside + here < inside) here = std::min(here, ~inside + 1);  // up to where the primary arena begins
      const uint64_t root = frame >> d.leaf_shift;
      if (root < d.heap_map_roots.count) {
        freeway_debug_field_t slot = d.heap_map_roots;
        slot.offset += static_cast<uint32_t>(root * slot.stride);
        const uint64_t leaf = word(slot);
        if (leaf != 0) from = leaf + 4 * (frame % leaf_frames);
      }
    }
    const std::size_t known = all.size();
    all.resize(known + here);
    if (from != 0) read_or_throw(memory_, from, &all[known], here * 4);
    frame += here;
    frames -= here;
  }
  return all;
}

std::vector<std::pair<uint64_t, uint32_t>> Heap::outside() const {
  std::vector<std::pair<uint64_t, uint32_t>> found;
  if (!is_started()) return found;
  const freeway_debug_t& d = layout();
  const auto roots = description_.heap_row(memory_, d.heap_map_roots);
  const uint64_t leaf_frames = uint64_t{1} << d.leaf_shift;
  for (std::size_t root = 0; root < roots.size(); ++root) {
    if (roots[root] == 0) continue;
    const auto leaf = read_row<uint32_t>(memory_, roots[root], leaf_frames);
    for (uint64_t i = 0; i < leaf_frames; ++i)
      if (leaf[i] != 0) found.emplace_back((root * leaf_frames + i) << d.frame_shift, leaf[i]);
  }
  return found;
}

}  // namespace freeway_command
