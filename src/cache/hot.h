// SPDX-License-Identifier: MIT
// hot.h: everything that the fast path reads, behind one base register.
//
// All of it is zero until the heap is initialised; with zero limits every call takes the slow path, which initialises.
//
// Words     limits, offsets, tables: written by initialisation only, by everybody who takes part in it with the same
//           values; the limits last. slab_of[id]: null slab -> slab -> null slab (while it is drained) -> slab, stored by
//           the holder of the CPU's exclusive word (cpu_slabs.h). frame_class: see page_map.h
//           byte_limit, step_limit, malloc_form: also as profiles are begun and ended (malloc/profile.cc)
//           birth_scale, birth_base: see birth/births.h. home: see homes.h. alone: null -> libc's flag <-> a 0, by the helper
//           (malloc/idle.cc)
// Orders    initialisation happens in the process's first allocation, which creating a second thread comes after. (A thread
//           made by hand before any allocation would need more; there the limits read as zero or as set, and the tables
//           and offsets under them have one value only.)
#pragma once

#include <cstddef>

#include "arch/atomic.h"
#include "arch/rseq_layout.h"
#include "pages/frames.h"
#include "size/size_classes.h"

namespace freeway {

struct Slab;

struct SectionDescriptor {
  u32 version, flags;
  u64 start, length, abort;
};

constexpr unsigned kHotClasses = 64;  // a round number above kClassCount

struct Hot {
  SectionDescriptor malloc_section;
  SectionDescriptor free_section;
  u64 rseq;
  u64 cpu_rseq;
  Atomic<u64> arena;
  Atomic<u64> frames;
  Atomic<u64> byte_limit;
  Atomic<u64> step_limit;
  u64 any_rseq;
  u64 any_id;
  u64 null_slab;
  u64 rseq_bytes;
  Atomic<const char*> alone;
  u64 checked;
  Atomic<u64> malloc_form;
  alignas(64) u64 birth_scale[kHotClasses];
  u64 birth_base[kHotClasses];
  u64 span_mask[kHotClasses];
  u64 factor[kHotClasses];
  u64 factor_limit[kHotClasses];
  u8 byte_table[kByteTableMax + 1];
  u8 step_table[kStepTableSize];
  alignas(64) Atomic<Slab*> slab_of[RSEQ_IDS];
  u8 frame_class[kPrimaryFrames];  // an Atomic<u8> each (clang counts constructors against a limit)
  u8 home[kPrimaryFrames];         // the same
};

#define FREEWAY_AT(field, offset) static_assert(offsetof(Hot, field) == (offset))
FREEWAY_AT(malloc_section, HOT_MALLOC_SECTION);
FREEWAY_AT(free_section, HOT_FREE_SECTION);
FREEWAY_AT(rseq, HOT_RSEQ);
FREEWAY_AT(cpu_rseq, HOT_CPU_RSEQ);
FREEWAY_AT(arena, HOT_ARENA);
FREEWAY_AT(frames, HOT_FRAMES);
FREEWAY_AT(byte_limit, HOT_BYTE_LIMIT);
FREEWAY_AT(step_limit, HOT_STEP_LIMIT);
FREEWAY_AT(any_rseq, HOT_ANY_RSEQ);
FREEWAY_AT(any_id, HOT_ANY_ID);
FREEWAY_AT(null_slab, HOT_NULL_SLAB);
FREEWAY_AT(rseq_bytes, HOT_RSEQ_BYTES);
FREEWAY_AT(alone, HOT_ALONE);
FREEWAY_AT(checked, HOT_CHECKED);
FREEWAY_AT(malloc_form, HOT_MALLOC_FORM);
FREEWAY_AT(birth_scale, HOT_BIRTH_SCALE);
FREEWAY_AT(birth_base, HOT_BIRTH_BASE);
FREEWAY_AT(span_mask, HOT_SPAN_MASK);
FREEWAY_AT(factor, HOT_FACTOR);
FREEWAY_AT(factor_limit, HOT_FACTOR_LIMIT);
FREEWAY_AT(byte_table, HOT_BYTE_TABLE);
FREEWAY_AT(step_table, HOT_STEP_TABLE);
FREEWAY_AT(slab_of, HOT_SLAB_OF);
FREEWAY_AT(frame_class, HOT_FRAME_CLASS);
FREEWAY_AT(home, HOT_HOME);
static_assert(HOT_BYTE_SIZES == kByteTableMax + 1 && HOT_STEP_SIZES == kMaxSmall + 1);
#undef FREEWAY_AT

}  // namespace freeway

extern "C" FREEWAY_HIDDEN freeway::Hot freeway_hot;
