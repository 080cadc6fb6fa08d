// SPDX-License-Identifier: MIT
// describe.cc: the heap itself, and `freeway_debug`, which says where its words are (freeway/debug.h). The compiler
// computes it from the structures, so it cannot differ from them. It is constant; this process's own walk reads by it,
// too. Compiled without access control, since most of these words are private.
//
// Both lie in this file so that a program that links libfreeway.a has the description with the heap.
#include <cstddef>

#include "arch/retained.h"
#include "freeway/debug.h"
#include "harden/guarded.h"
#include "malloc/malloc.h"
#include "malloc/walk.h"
#include "os/vm.h"
#include "profile/profiler.h"

// The heap has private and public members, so C++ leaves it to compilers whether offsets in it are constant. In GCC and
// clang they are wherever there is no virtual base.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

#define FREEWAY_TEXT_OF(x) #x
#define FREEWAY_TEXT(x) FREEWAY_TEXT_OF(x)

namespace freeway {

constinit FREEWAY_LARGE Malloc process_malloc;

struct Describe {
  using Field = freeway_debug_field_t;
  using Process = Malloc;
  using OneArena = Arena<Machine>;
  using OneDescriptor = Descriptor<Machine>;
  using GuardSlots = guard::ProcessSlots;
  // No constant if it does not fit.
  template <class T> static constexpr T exact(std::size_t value) {
    if (static_cast<T>(value) != value) __builtin_unreachable();
    return static_cast<T>(value);
  }
  static constexpr Field field(std::size_t offset, std::size_t size, std::size_t stride, std::size_t count) {
    return {exact<u32>(offset), exact<u32>(count), exact<u16>(stride), exact<u16>(size)};
  }
#define FREEWAY_WORD(Object, member) \
  field(offsetof(Object, member), sizeof(static_cast<Object*>(nullptr)->member), 0, 1)
// The words themselves, or a member of each element.
#define FREEWAY_ROW(Object, array, member)                                                         \
  field(offsetof(Object, array[0] member), sizeof(static_cast<Object*>(nullptr)->array[0] member), \
        sizeof(static_cast<Object*>(nullptr)->array[0]),                                           \
        sizeof(static_cast<Object*>(nullptr)->array) / sizeof(static_cast<Object*>(nullptr)->array[0]))

  template <std::size_t N, std::size_t M> static constexpr void copy(char (&to)[N], const char (&text)[M]) {
    static_assert(M <= N);
    for (std::size_t i = 0; i < M; ++i) to[i] = text[i];
  }

  // Of the substrate a process of a few MiB touches its first chunks' page and one more.
  static constexpr std::size_t kPage = 4 * kKiB, kFewFrames = 8 * kMiB / kFrameSize;
  static_assert(offsetof(Process, substrate_.map_.primary_) / kPage ==
                offsetof(Process, substrate_.frame_infos_[kFewFrames]) / kPage);

  static constexpr void describe_sizes(freeway_debug_t& d) {
    d.heap_bytes = sizeof(process_malloc);
    d.hot_bytes = sizeof(freeway_hot);
    d.frame_shift = kFrameShift;
    d.chunk_frames = kChunkFrames;
    d.unit_bytes = Metadata<Machine>::kUnit;
    d.segment_shift = Metadata<Machine>::kSegmentShift;
    d.leaf_shift = PageMap<Machine>::kLeafBits;
    d.class_count = kClassCount;
    d.slab_bytes = sizeof(Slab);
    d.beds = quarantine::kMostBeds;
    d.birth_skew = Births<Machine>::kSkew;
    d.guard_slot_count = guard::kSlots;
    static_assert(kClassCount <= FREEWAY_DEBUG_CLASSES);
    for (unsigned c = 1; c < kClassCount; ++c) {
      const SizeClass& k = kSizeClasses[c];
      d.classes[c] = {k.size,
                      static_cast<u32>(offset_of_small(c) / 8),
                      static_cast<u32>(offset_of_big(c) / 8),
                      static_cast<u32>(quarantine::area(c, 0) / 8),
                      exact<u16>(k.blocks),
                      exact<u16>(k.words),
                      exact<u16>(k.span_frames),
                      exact<u16>(kMagazines[c].small),
                      exact<u16>(kMagazines[c].big),
                      exact<u16>(quarantine::slots_of(c))};
    }
  }

  static constexpr void describe_engine(freeway_debug_t& d) {
    d.heap_ready = FREEWAY_WORD(Process, ready_);
    d.heap_mode = FREEWAY_WORD(Process, heap_.slabs.mode_.word_);
    static_assert(Slabs::kUndecided == 0 && Slabs::kSpare == look::kSpareMode);
    d.heap_why_spare = FREEWAY_WORD(Process, heap_.slabs.why_spare_);
    d.heap_harden = FREEWAY_WORD(Process, substrate_.options_.harden);
    d.heap_quarantine = FREEWAY_WORD(Process, heap_.quarantine_.bytes_);
    d.heap_cpu_ids = FREEWAY_WORD(Process, heap_.slabs.ids_);
    d.heap_cpu_slabs = FREEWAY_ROW(Process, heap_.slabs.cpu_slabs_.cpus_, .made);
    d.heap_spare_slabs = FREEWAY_ROW(Process, heap_.slabs.spare_.seats_, .slab);
    d.heap_slabs_bytes = FREEWAY_WORD(Process, heap_.slabs.bytes_);
    d.heap_record_ends = FREEWAY_ROW(Process, heap_.own_heaps.frames_.records_.segments_, .extent.word_);
    d.heap_births_off = FREEWAY_WORD(Process, heap_.births.are_dropped_);
    d.heap_births_place = FREEWAY_WORD(Process, heap_.births.place_);
    d.heap_births_arena = FREEWAY_WORD(Process, heap_.births.arena_);
    d.heap_births_bytes = FREEWAY_WORD(Process, heap_.births.bytes_);
    d.descriptor_bytes = offsetof(OneDescriptor, words);
    d.descriptor_anchor = FREEWAY_WORD(OneDescriptor, anchor);
    d.descriptor_span = FREEWAY_WORD(OneDescriptor, span);
    d.descriptor_class = FREEWAY_WORD(OneDescriptor, size_class);
    d.descriptor_node = FREEWAY_WORD(OneDescriptor, node);
    d.descriptor_kind = FREEWAY_WORD(OneDescriptor, kind);
    d.descriptor_words = FREEWAY_ROW(OneDescriptor, words, );
    d.slab_tops = FREEWAY_ROW(Slab, top, );
    d.slab_rests = FREEWAY_ROW(Slab, rest, );
    d.slab_beds = field(u64{quarantine::row(0, 1)} * 8, 8, u64{quarantine::kMostBeds} * 8, kClassCount);
    d.slab_node = FREEWAY_WORD(Slab, node);
    d.slab_slow_mallocs = FREEWAY_ROW(Slab, counters, .slow_mallocs);
    d.slab_slow_frees = FREEWAY_ROW(Slab, counters, .slow_frees);
    d.slab_refills = FREEWAY_ROW(Slab, counters, .refills);
    d.slab_flushes = FREEWAY_ROW(Slab, counters, .flushes);
  }

  static constexpr void describe_pages(freeway_debug_t& d) {
    d.heap_map_roots = FREEWAY_ROW(Process, substrate_.map_.root_, );
    d.heap_map_primary = FREEWAY_WORD(Process, substrate_.map_.primary_);
    d.heap_map_frames = FREEWAY_WORD(Process, substrate_.map_.frames_);
    d.heap_map_classes = FREEWAY_WORD(Process, substrate_.map_.bytes_);
    d.heap_map_infos = FREEWAY_WORD(Process, substrate_.map_.infos_);
    d.heap_map_leaves = FREEWAY_WORD(Process, substrate_.map_.leaves_);
    d.heap_arena = FREEWAY_WORD(Process, substrate_.frames_.primary_);
    d.heap_arenas = FREEWAY_ROW(Process, substrate_.further_.slots, );
    d.heap_live_frames = FREEWAY_WORD(Process, substrate_.frames_.policy_.live_);
    d.heap_dirty_frames = FREEWAY_WORD(Process, substrate_.frames_.policy_.dirty_);
    d.heap_purges = FREEWAY_WORD(Process, substrate_.frames_.policy_.purges_);
    d.heap_purged = FREEWAY_WORD(Process, substrate_.frames_.policy_.purged_total_);
    d.heap_limit = FREEWAY_WORD(Process, substrate_.frames_.limits_.word_);
    d.heap_soft_limit = FREEWAY_WORD(Process, substrate_.frames_.limits_.soft_);
    d.heap_limit_refusals = FREEWAY_WORD(Process, substrate_.frames_.limits_.refusals_);
    d.heap_limit_pressures = FREEWAY_WORD(Process, substrate_.frames_.limits_.pressures_);
    d.heap_segments = FREEWAY_ROW(Process, substrate_.metadata_.segments_, .packed);
    d.heap_segment_ends = FREEWAY_ROW(Process, substrate_.metadata_.segments_, .extent.word_);
    d.heap_units = FREEWAY_WORD(Process, substrate_.metadata_.cursor_);
    d.heap_large_blocks = FREEWAY_WORD(Process, substrate_.large_count_);
    d.heap_huge_blocks = FREEWAY_WORD(Process, substrate_.large_.huge_count_);
    d.heap_huge_frames = FREEWAY_WORD(Process, substrate_.large_.huge_);
    d.heap_guard_bytes = FREEWAY_WORD(Process, substrate_.large_.ends_.bytes_);
    d.heap_span_frames = FREEWAY_WORD(Process, substrate_.span_frames_);
    d.arena_base = FREEWAY_WORD(OneArena, range_.space_.base);
    d.arena_bytes = FREEWAY_WORD(OneArena, range_.bytes_);
    d.arena_watermark = FREEWAY_WORD(OneArena, range_.extent_.word_);
    d.arena_holes = FREEWAY_ROW(OneArena, range_.extent_.holes_.words, );
    d.arena_chunks = FREEWAY_WORD(OneArena, chunks_);
    d.chunk_used = FREEWAY_WORD(Chunk<Machine>, used);
    d.chunk_dirty = FREEWAY_WORD(Chunk<Machine>, dirty);
    d.chunk_bytes = sizeof(Chunk<Machine>);
  }

  static constexpr void describe_guard(freeway_debug_t& d) {
    d.guard_range = &guard::range;
    d.guard_slots = &guard::process_slots;
    d.guard_faults = &guard::faults;
    d.guard_range_begin = FREEWAY_WORD(guard::Range, begin);
    d.guard_range_bytes = FREEWAY_WORD(guard::Range, bytes);
    d.guard_word = FREEWAY_ROW(GuardSlots, slots_, .word);
    d.guard_address = FREEWAY_ROW(GuardSlots, slots_, .address);
    d.guard_size = FREEWAY_ROW(GuardSlots, slots_, .size);
    d.guard_allocated_by = FREEWAY_ROW(GuardSlots, slots_, .birth.caller);
    d.guard_allocated_in = FREEWAY_ROW(GuardSlots, slots_, .birth.thread);
    d.guard_freed_by = FREEWAY_ROW(GuardSlots, slots_, .death.caller);
    d.guard_freed_in = FREEWAY_ROW(GuardSlots, slots_, .death.thread);
    d.guard_owner = FREEWAY_ROW(GuardSlots, slots_, .owner);
  }

  static constexpr void describe_profile(freeway_debug_t& d) {
    using profile::Profile;
    using Sites = profile::Sites<Machine>;
    using Live = profile::LiveBlocks<Machine>;
    using Copies = profile::StackCopies<Machine>;
    d.profile = &profile::process_profile;
    d.profile_wanted = FREEWAY_WORD(Profile, wanted.word_);
    d.profile_began = FREEWAY_WORD(Profile, began_ms);
    d.profile_samples = FREEWAY_WORD(Profile, samples);
    d.profile_lost_stacks = FREEWAY_WORD(Profile, lost_stacks);
    d.profile_lost_blocks = FREEWAY_WORD(Profile, lost_blocks);
    d.profile_sites = FREEWAY_WORD(Profile, sites.memory_);
    d.profile_site_count = FREEWAY_WORD(Profile, sites.count_);
    d.profile_live = FREEWAY_WORD(Profile, blocks.entries_);
    d.profile_live_count = FREEWAY_WORD(Profile, blocks.count_);
    d.profile_copies = FREEWAY_WORD(Profile, copies.memory_);
    d.profile_copy_count = FREEWAY_WORD(Profile, copies.count_);
    d.profile_copy_piece = FREEWAY_WORD(Profile, copies.piece_);
    d.profile_top = FREEWAY_WORD(Profile, peak.top_);
    d.profile_top_interval = FREEWAY_WORD(Profile, peak.interval_);
    d.profile_top_began = FREEWAY_WORD(Profile, peak.began_ms_);
    d.site_bytes = sizeof(Sites::Site);
    d.site_words = Sites::kWordsEach;
    d.site_depth_bits = Sites::kDepthBits;
    d.site_head = Sites::kHead;
    d.site_facts = FREEWAY_WORD(Sites::Site, facts);
    d.site_allocated = FREEWAY_WORD(Sites::Site, allocated);
    d.site_allocated_bytes = FREEWAY_WORD(Sites::Site, allocated_bytes);
    d.site_freed = FREEWAY_WORD(Sites::Site, freed);
    d.site_freed_bytes = FREEWAY_WORD(Sites::Site, freed_bytes);
    d.site_born = FREEWAY_WORD(Sites::Site, born);
    d.site_born_freed = FREEWAY_WORD(Sites::Site, born_freed);
    d.site_died = FREEWAY_WORD(Sites::Site, died);
    d.site_at_peak = FREEWAY_WORD(Sites::Site, at_peak);
    d.site_copy = FREEWAY_WORD(Sites::Site, copy);
    d.live_bytes = sizeof(Live::Entry);
    d.copy_head_bytes = Copies::kHead;
    d.live_address = FREEWAY_WORD(Live::Entry, address);
    d.live_site = FREEWAY_WORD(Live::Entry, site);
    d.live_size = FREEWAY_WORD(Live::Entry, size);
    d.live_born = FREEWAY_WORD(Live::Entry, born);
    d.copy_length = field(0, 8, 0, 1);
    d.copy_registers = field(8, 8, 8, Registers::kCount);
  }
#undef FREEWAY_WORD
#undef FREEWAY_ROW

  static constexpr freeway_debug_t all(const freeway_debug_t* self) {
    freeway_debug_t d{};
    copy(d.magic, FREEWAY_DEBUG_MAGIC);
    d.self = self;
    d.version = FREEWAY_DEBUG_VERSION;
    d.bytes = sizeof(d);
    copy(d.engine, "freeway");
    copy(d.library, FREEWAY_TEXT(FREEWAY_VERSION_MAJOR) "." FREEWAY_TEXT(FREEWAY_VERSION_MINOR) "." FREEWAY_TEXT(
                        FREEWAY_VERSION_PATCH));
    d.heap = &process_malloc;
    d.hot = &freeway_hot;
    d.window = &vm::window_word;
    describe_sizes(d);
    describe_engine(d);
    describe_pages(d);
    describe_guard(d);
    describe_profile(d);
    return d;
  }
};

// A change to it, or to the meaning of one of its words, counts FREEWAY_DEBUG_VERSION up.
static_assert(sizeof(freeway_debug_t) == 2744 && FREEWAY_DEBUG_VERSION == 6);

}  // namespace freeway

extern "C" alignas(64) FREEWAY_EXPORT FREEWAY_RETAINED
    constinit const freeway_debug_t freeway_debug = freeway::Describe::all(&freeway_debug);
// By a name of its own, since another library of the process may have the description of another heap.
extern "C" FREEWAY_HIDDEN const freeway_debug_t freeway_own_debug __attribute__((alias("freeway_debug")));

constinit const freeway::OwnMemory freeway::own_memory{freeway_own_debug};
