// SPDX-License-Identifier: MIT
// offsets.cc: the offsets by which the assembly reads structures. The numbers are in offsets.h of the room that has the
// structure: tests/whole/golden/offsets.py writes it from this list, and it is kept. Every build compares it here, by
// its own compiler and for its own processor; none has to make it first: CMake's, a crate's (packaging/rust), a cross
// compiler's.
#include "arch/rseq_place.h"
#include "cache/hot.h"
#include "cache/slab.h"
#include "malloc/malloc.h"
#include "malloc/malloc_form.h"

#if defined(FREEWAY_WRITE_OFFSETS)
#define FREEWAY_OFFSETS [[gnu::used]] static void offsets()
#define FREEWAY_OFFSET(name, value) asm volatile("\n.ascii \"" #name " %c0\"" : : "i"(value))
#else
#include "arch/offsets.h"
#include "cache/offsets.h"
#include "malloc/offsets.h"
#define FREEWAY_OFFSETS [[maybe_unused]] static void offsets()
#define FREEWAY_OFFSET(name, value) static_assert(name == (value), "run tests/whole/golden/offsets.py --update")
#endif

// A heap has a base class and private members, of which the language does not say where they lie; compilers do.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace freeway {

static_assert(offsetof(Hot, malloc_section) == 0);  // one register is both the base and what rseq_cs is set to
static_assert(offsetof(Hot, frames) == offsetof(Hot, arena) + 8);  // aarch64 loads both at once
static_assert(offsetof(Slab, top) == 0);
static_assert(offsetof(Hot, rseq) >= kClassCount * sizeof(u64));  // see Hot
static_assert(offsetof(heap::Run<Machine>, size_class) == offsetof(Descriptor<Machine>, size_class));
static_assert(offsetof(heap::Run<Machine>, heap) == offsetof(Descriptor<Machine>, heap));

FREEWAY_OFFSETS {
  FREEWAY_OFFSET(RSEQ_PLACE_AREA, offsetof(RseqPlace, area));
  FREEWAY_OFFSET(RSEQ_PLACE_ID, offsetof(RseqPlace, id));
  FREEWAY_OFFSET(RSEQ_PLACE_BYTES, offsetof(RseqPlace, bytes));
  FREEWAY_OFFSET(RSEQ_PLACE_ALONE, offsetof(RseqPlace, alone));

  FREEWAY_OFFSET(HOT_FREE_SECTION, offsetof(Hot, free_section));
  FREEWAY_OFFSET(HOT_NEW_SECTION, offsetof(Hot, new_section));
  FREEWAY_OFFSET(HOT_RSEQ, offsetof(Hot, rseq));
  FREEWAY_OFFSET(HOT_CPU_RSEQ, offsetof(Hot, cpu_rseq));
  FREEWAY_OFFSET(HOT_ARENA, offsetof(Hot, arena));
  FREEWAY_OFFSET(HOT_FRAMES, offsetof(Hot, frames));
  FREEWAY_OFFSET(HOT_BYTE_LIMIT, offsetof(Hot, byte_limit));
  FREEWAY_OFFSET(HOT_STEP_LIMIT, offsetof(Hot, step_limit));
  FREEWAY_OFFSET(HOT_NULL_SLAB, offsetof(Hot, null_slab));
  FREEWAY_OFFSET(HOT_CHECKED, offsetof(Hot, checked));
  FREEWAY_OFFSET(HOT_MALLOC_FORM, offsetof(Hot, malloc_form));
  FREEWAY_OFFSET(HOT_DELETE_FRAMES, offsetof(Hot, delete_frames));
  FREEWAY_OFFSET(HOT_BIRTH_SCALE, offsetof(Hot, birth_scale));
  FREEWAY_OFFSET(HOT_BIRTH_BASE, offsetof(Hot, birth_base));
  FREEWAY_OFFSET(HOT_SPAN_MASK, offsetof(Hot, span_mask));
  FREEWAY_OFFSET(HOT_FACTOR, offsetof(Hot, factor));
  FREEWAY_OFFSET(HOT_FACTOR_LIMIT, offsetof(Hot, factor_limit));
  FREEWAY_OFFSET(HOT_BYTE_TABLE, offsetof(Hot, byte_table));
  FREEWAY_OFFSET(HOT_STEP_TABLE, offsetof(Hot, step_table));
  FREEWAY_OFFSET(HOT_SLAB_OF, offsetof(Hot, slab_of));
  FREEWAY_OFFSET(HOT_FRAME_CLASS, offsetof(Hot, frame_bytes) + offsetof(Substrate::FrameBytes, size_class));
  FREEWAY_OFFSET(HOT_FRAME_HOME, offsetof(Hot, frame_bytes) + offsetof(Substrate::FrameBytes, home));
  static_assert(sizeof(Substrate::FrameBytes) == 2);
  FREEWAY_OFFSET(HOT_BYTE_SIZES, kByteTableMax + 1);
  FREEWAY_OFFSET(HOT_STEP_SIZES, kMaxSmall + 1);
  FREEWAY_OFFSET(MALLOC_COUNTED, MallocForm::kCounted);
  FREEWAY_OFFSET(MALLOC_CHECKED, MallocForm::kChecked);

  FREEWAY_OFFSET(SLAB_HOME, offsetof(Slab, home));
  FREEWAY_OFFSET(SLAB_PATIENCE, offsetof(Slab, patience));
  FREEWAY_OFFSET(SLAB_REST, offsetof(Slab, rest));
  FREEWAY_OFFSET(SLAB_GAP, offsetof(Slab, gap));

  FREEWAY_OFFSET(OWN_IDS, offsetof(heap::OwnHeap, ids));
  FREEWAY_OFFSET(OWN_SLAB_OF, offsetof(heap::OwnHeap, slab_of));
  FREEWAY_OFFSET(OWN_STRIP_BASE, heap::kStripBase);
  FREEWAY_OFFSET(OWN_STRIP_NEXT, heap::kStripNext);
  FREEWAY_OFFSET(OWN_STRIP_END, offsetof(heap::Run<Machine>, end));
  FREEWAY_OFFSET(OWN_STRIP_KINDS, offsetof(heap::Run<Machine>, kinds));
}

}  // namespace freeway
