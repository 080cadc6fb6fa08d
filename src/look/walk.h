// SPDX-License-Identifier: MIT
// Walk: the heap's structures, enumerated by the words that freeway/debug.h names: of this process (malloc/walk.h), of
// another one, or of a core file (command/heap/description.h). Account, audit, profile, `freeway stat` and its like go
// here.
//
// Nobody is stopped. Each word is one that it had at some moment; together they may be of different moments. So nothing
// here takes two words to agree, and every loop ends by a bound that no other thread moves. Counts are exact while
// nobody allocates.
//
// Who may call  any thread, any signal handler, if the reader may: nothing is allocated here
#pragma once

#include <concepts>

#include "base/compiler.h"
#include "base/function_ref.h"
#include "freeway/debug.h"
#include "pages/chunk_word.h"
#include "pages/committed_range.h"
#include "size/size_classes.h"
#include "superblock/anchor.h"

namespace freeway::look {

// A part of the heap's memory: as it is, or a copy.
template <class V>
concept View = requires(const V& view, u64 offset, u32 bytes) {
  { view.address() } -> std::same_as<u64>;  // where it begins in the heap's process
  { view.word(offset, bytes) } -> std::same_as<u64>;
};

template <class R>
concept Reader = requires(const R& reader, u64 address, u64 bytes, unsigned c) {
  { reader.layout() } -> std::same_as<const freeway_debug_t&>;
  { reader.size_class(c) } -> std::same_as<const SizeClass&>;
  { reader.view(address, bytes) } -> View;
  { reader.expect(true, "what cannot be true") };  // damaged memory: does not return if false, or knows that it is true
};

template <View V> u64 word(const V& view, const freeway_debug_field_t& field, u64 i = 0) {
  return view.word(field.offset + i * field.stride, field.size);
}

// A descriptor: of a superblock, ready to be one, or a tombstone.
template <View V> class DescriptorView {
 public:
  DescriptorView(const freeway_debug_t& layout, const V& segment, u64 at, u32 index, unsigned c, const SizeClass& k)
      : layout_(layout),
        segment_(segment),
        at_(at),
        index_(index),
        class_(c),
        k_(k),
        anchor_(segment.word(at + layout.descriptor_anchor.offset, 8)) {}

  u32 index() const { return index_; }
  unsigned size_class() const { return class_; }
  const SizeClass& shape() const { return k_; }
  u64 anchor() const { return anchor_; }
  u64 span() const { return word(layout_.descriptor_span); }
  u32 node() const { return static_cast<u32>(word(layout_.descriptor_node)); }
  bool is_sampled() const { return word(layout_.descriptor_kind) != 0; }  // its blocks are those that a profile samples
  u64 bits(unsigned w) const { return segment_.word(at_ + layout_.descriptor_words.offset + u64{w} * 8, 8); }
  bool is_in_use() const { return anchor::is_in_use(anchor_, class_, k_.words); }
  u32 free_blocks() const {
    u32 blocks = 0;
    for (unsigned w = 0; w < k_.words; ++w) blocks += popcount(bits(w));
    return blocks < k_.blocks ? blocks : k_.blocks;
  }

 private:
  u64 word(const freeway_debug_field_t& field) const { return segment_.word(at_ + field.offset, field.size); }

  const freeway_debug_t& layout_;
  const V& segment_;
  u64 at_;
  u32 index_;
  unsigned class_;
  const SizeClass& k_;
  u64 anchor_;
};

// The part of an arena that was made accessible, by chunks.
template <View V> class ArenaView {
 public:
  ArenaView(const freeway_debug_t& layout, const V& arena, const V& chunks)
      : layout_(&layout), arena_(arena), chunks_(chunks), watermark_(word(arena, layout.arena_watermark)) {}

  u64 base() const { return word(arena_, layout_->arena_base); }
  u64 bytes() const { return word(arena_, layout_->arena_bytes); }
  u64 committed() const { return range_word::end_of(watermark_); }
  u64 used(std::size_t chunk) const {
    return chunks_.word(chunk * layout_->chunk_bytes + layout_->chunk_used.offset, 8);
  }
  u64 dirty(std::size_t chunk) const {
    return chunks_.word(chunk * layout_->chunk_bytes + layout_->chunk_dirty.offset, 8);
  }
  // Frames of a chunk that are accessible, as bits.
  u64 accessible(std::size_t chunk) const {
    u64 bits = frames_below(chunk, committed());
    each_hole([&](u64 begin, u64 end) { bits &= ~(frames_below(chunk, end) & ~frames_below(chunk, begin)); });
    return bits;
  }
  u64 accessible_bytes() const {
    u64 bytes = committed();
    each_hole([&](u64 begin, u64 end) { bytes -= end - begin; });
    return bytes;
  }

 private:
  template <class F> void each_hole(F&& f) const {
    for (unsigned i = 0; i < range_word::holes_of(watermark_) && i < layout_->arena_holes.count; ++i) {
      const u64 hole = word(arena_, layout_->arena_holes, i);
      f(range_word::hole_begin(hole), range_word::hole_end(hole));
    }
  }
  static u64 frames_below(std::size_t chunk, u64 offset) {
    const u64 begin = chunk * kChunkSize;
    return low_bits(static_cast<unsigned>((clamp(offset, begin, begin + kChunkSize) - begin) / kFrameSize));
  }

  const freeway_debug_t* layout_;
  V arena_, chunks_;
  u64 watermark_;
};

template <Reader R> class Walk {
 public:
  using Part = decltype(std::declval<const R&>().view(0, 0));
  using Descriptor = DescriptorView<Part>;
  using Arena = ArenaView<Part>;

  explicit Walk(const R& reader)
      : reader_(reader),
        d_(reader.layout()),
        is_started_(word(d_.heap_map_primary) != 0),
        resting_bytes_(word(d_.heap_harden) == 0 ? kNone : word(d_.heap_quarantine)) {}

  const R& reader() const { return reader_; }
  // False: nothing was ever allocated, and nothing is met.
  bool is_started() const { return is_started_; }
  u64 word(const freeway_debug_field_t& field) const {
    return reader_.view(heap() + field.offset, field.size).word(0, field.size);
  }

  // For each word of a row of the heap's.
  FREEWAY_NOINLINE void each_word(const freeway_debug_field_t& row, FunctionRef<void(u32 i, u64 word)> f) const {
    reader_.expect(row.stride * u64{row.count} <= kMostRow, "the length of a row");
    if (row.count == 0) return;
    const Part words = reader_.view(heap() + row.offset, u64{row.count - 1} * row.stride + row.size);
    for (u32 i = 0; i < row.count; ++i) f(i, words.word(u64{i} * row.stride, row.size));
  }

  // For the accessible part of each segment of descriptors.
  FREEWAY_NOINLINE void each_segment(FunctionRef<void(u32 number, u64 begin, u64 bytes)> f) const {
    const u64 ends = heap() + d_.heap_segment_ends.offset;
    each_word(d_.heap_segments, [&](u32 i, u64 packed) {
      const u64 begin = align_down(packed, kFrameSize);
      if (begin == 0) return;
      const u32 size = d_.heap_segment_ends.size;
      const u64 bytes =
          range_word::end_of(reader_.view(ends + u64{i} * d_.heap_segment_ends.stride, size).word(0, size));
      reader_.expect(bytes <= u64{d_.unit_bytes} << d_.segment_shift, "the length of a segment");
      if (bytes != 0) f(i, begin, bytes);
    });
  }

  // For each descriptor that was ever made.
  FREEWAY_NOINLINE void each_descriptor(FunctionRef<void(const Descriptor&)> f) const {
    if (!is_started_) return;
    const u64 end = word(d_.heap_units);
    each_segment([&](u32 number, u64 begin, u64 bytes) {
      const u64 first = u64{number} << d_.segment_shift;
      if (first >= end) return;
      const u64 units = clamp(end - first, 0, bytes / d_.unit_bytes);
      const Part segment = reader_.view(begin, units * d_.unit_bytes);
      for (u64 unit = number == 0 ? 1 : 0; unit < units;) unit += descriptor(segment, first, unit, units, f);
    });
  }

  // The same for those that describe a superblock now.
  void each_superblock(FunctionRef<void(const Descriptor&)> f) const {
    each_descriptor([&](const Descriptor& each) {
      if (each.is_in_use()) f(each);
    });
  }

  // For each slab: "CPU ", 3.
  FREEWAY_NOINLINE void each_slab(FunctionRef<void(const char* kind, u32 number, const Part& slab)> f) const {
    const struct {
      const char* name;
      const freeway_debug_field_t& row;
    } kinds[] = {{"CPU ", d_.heap_cpu_slabs}, {"spare slab ", d_.heap_spare_slabs}};
    if (!is_started_) return;
    const u64 bytes = head_bytes(), ids = word(d_.heap_cpu_ids);
    for (const auto& kind : kinds) {
      freeway_debug_field_t row = kind.row;
      if (&kind.row == &d_.heap_cpu_slabs) row.count = static_cast<u32>(clamp(ids, 0, row.count));
      each_word(row, [&](u32 i, u64 address) {
        if (address != 0) f(kind.name, i, reader_.view(address, bytes));
      });
    }
  }

  // For each block of class `c` that the slab has, the uppermost of a magazine first: cache/slots.h.
  FREEWAY_NOINLINE void each_cached(const Part& slab, unsigned c, FunctionRef<void(u64 slot, bool rests)> f) const {
    const freeway_debug_class_t& k = d_.classes[c];
    const u64 top = look::word(slab, d_.slab_tops, c), at = (top - slab.address()) / 8;
    const bool small = at >= k.small && at <= u64{k.small} + k.small_slots;
    if (small || k.big_slots != k.small_slots)
      each_slot(slab, top, small ? k.small : k.big, small ? k.small_slots : k.big_slots,
                [&](u64 slot) { f(slot, false); });
    if (resting_bytes_ == kNone) return;
    const auto rests = [&](u64 slot) { f(slot, true); };
    each_slot(slab, look::word(slab, d_.slab_rests, c), k.beds, k.bed_slots, rests);
    const u64 bed_bytes = u64{k.bed_slots} * k.size,
              beds = bed_bytes == 0 ? 0 : clamp(resting_bytes_ / bed_bytes, 0, d_.beds);
    if (beds == 0) return;
    const Part tops = reader_.view(slab.address() + d_.slab_beds.offset + u64{c} * d_.slab_beds.stride, beds * 8);
    for (u64 bed = 0; bed < beds; ++bed)
      each_slot(slab, tops.word(bed * 8, 8), k.beds + (bed + 1) * (k.bed_slots + 1), k.bed_slots, rests);
  }

  FREEWAY_NOINLINE void each_arena(FunctionRef<void(const Arena&)> f) const {
    if (!is_started_) return;
    arena(heap() + d_.heap_arena.offset, f);
    bool ended = false;
    each_word(d_.heap_arenas, [&](u32, u64 address) {
      ended = ended || address == 0;
      if (!ended) arena(address, f);
    });
  }

  // Pages for guarded blocks: where they begin, and their bytes, 0: nothing is guarded.
  u64 guard_begin() const { return guard_word(d_.guard_range_begin); }
  u64 guard_bytes() const { return is_started_ ? guard_word(d_.guard_range_bytes) : 0; }
  void each_guard_slot(FunctionRef<void(const Part& slots, u32 number)> f) const {
    if (guard_bytes() == 0) return;
    const Part slots =
        reader_.view(reinterpret_cast<u64>(d_.guard_slots), u64{d_.guard_word.stride} * d_.guard_slot_count);
    for (u32 i = 0; i < d_.guard_slot_count; ++i) f(slots, i);
  }

 private:
  static constexpr u64 kNone = ~u64{0}, kMostRow = 1 << 24;

  u64 heap() const { return reinterpret_cast<u64>(d_.heap); }
  u64 guard_word(const freeway_debug_field_t& field) const {
    return reader_.view(reinterpret_cast<u64>(d_.guard_range) + field.offset, field.size).word(0, field.size);
  }

  // The units of the piece that begins at this one. What take() has handed out and nobody has filled in yet is of class
  // 0.
  FREEWAY_NOINLINE u64 descriptor(const Part& segment, u64 first, u64 unit, u64 units,
                                  FunctionRef<void(const Descriptor&)> f) const {
    const u64 at = unit * d_.unit_bytes, left = (units - unit) * d_.unit_bytes;
    const u64 c = left < d_.descriptor_bytes ? 0 : segment.word(at + d_.descriptor_class.offset, 4);
    if (c == 0 || c >= d_.class_count) return 1;
    const SizeClass& k = reader_.size_class(static_cast<unsigned>(c));
    const u64 bytes = d_.descriptor_bytes + align_up(u64{k.words} * 8, d_.unit_bytes);
    if (bytes > left) return units - unit;
    f(Descriptor(d_, segment, at, static_cast<u32>(first + unit), static_cast<unsigned>(c),
                 k));  // OPTIMISTIC: accounts
    return ceil_div(bytes, d_.unit_bytes);
  }

  // A slab up to its grown magazines: the words of each class, and the first magazines.
  FREEWAY_NOINLINE u64 head_bytes() const {
    u64 bytes = d_.slab_bytes;
    for (unsigned c = 1; c < d_.class_count; ++c)
      if (d_.classes[c].big_slots != d_.classes[c].small_slots) bytes = clamp(u64{d_.classes[c].big} * 8, 0, bytes);
    return bytes;
  }

  // The blocks from `top` down to a 0, or to the area's beginning; none if `top` is not there: the class has no
  // magazine.
  FREEWAY_NOINLINE void each_slot(const Part& slab, u64 top, u64 area, u64 slots, FunctionRef<void(u64 slot)> f) const {
    const u64 begin = slab.address() + area * 8;
    if (top <= begin || (top - begin) / 8 > slots || (top - begin) % 8 != 0) return;
    const Part magazine = reader_.view(begin, top - begin);
    for (u64 at = top - begin; at > 0; at -= 8) {
      const u64 slot = magazine.word(at - 8, 8);
      if (slot == 0) return;
      f(slot);
    }
  }

  FREEWAY_NOINLINE void arena(u64 address, FunctionRef<void(const Arena&)> f) const {
    const Part object = reader_.view(address, d_.heap_arena.size);
    const u64 base = look::word(object, d_.arena_base), bytes = look::word(object, d_.arena_bytes);
    const u64 committed = range_word::end_of(look::word(object, d_.arena_watermark));
    reader_.expect(committed <= bytes && base + bytes >= base, "the length of an arena");
    f(Arena(d_, object,
            reader_.view(look::word(object, d_.arena_chunks), ceil_div(committed, kChunkSize) * d_.chunk_bytes)));
  }

  const R& reader_;
  const freeway_debug_t& d_;
  bool is_started_;
  u64 resting_bytes_;
};

}  // namespace freeway::look
