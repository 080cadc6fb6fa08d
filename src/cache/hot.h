// SPDX-License-Identifier: MIT
// hot.h: everything that the fast path reads, behind one base register.
//
// All of it is zero until the heap is initialised; with zero limits every call takes the slow path, which initialises.
//
// Words     limits, offsets, tables: written by initialisation only, by each thread that takes part in it, with the
//           same values; the limits last. slab_of[id]: null slab -> slab -> null slab (while it is drained) -> slab,
//           stored by the holder of the CPU's exclusive word (cpu_slabs.h). frame_bytes: see page_map.h,
//           homes.h
//           byte_limit, step_limit, malloc_form: also as profiles are begun and ended (malloc/profile.cc)
//           birth_scale, birth_base: see harden/births.h. What other sections read: arch/rseq_place.h
// Orders    initialisation happens in the process's first allocation, which creating a second thread comes after. (A
//           thread made by hand before any allocation would need more; there the limits read as zero or as set, and the
//           tables and offsets under them have one value only.)
#pragma once

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

constexpr unsigned kHotClasses = 48;  // a round number above kClassCount

// The assembly's offsets: malloc/offsets.cc. freeway_hot begins a page, as slabs do, and a processor holds up a load
// whose place in its page is that of a store before it. So behind the sections, which only the kernel reads, lies what
// hardened calls alone read: no word that each call reads has the place of a magazine's `top`, which each call stores.
struct Hot {
  SectionDescriptor malloc_section;
  SectionDescriptor free_section;
  u64 birth_scale[kHotClasses];  // 2^(8 - shift)
  u64 rseq;                      // struct rseq - thread pointer, where mm_cid is the index; else the decoy
  u64 cpu_rseq;                  // the same, where cpu_id is the index; else the decoy
  Atomic<u64> arena;             // address of the primary arena
  Atomic<u64> frames;            // frames it has; 0 sends every free to the slow path
  Atomic<u64> byte_limit;   // malloc sizes below this use the byte table (1025); 0 sends every malloc to the slow path
  Atomic<u64> step_limit;   // sizes below this use the step table (32769); 0 likewise
  u64 null_slab;            // its address
  u64 checked;              // frames of the primary arena where free's checked path is used, else 0
  Atomic<u64> malloc_form;  // where malloc goes while its limits are 0: MallocForm
  Atomic<u64> delete_frames;  // `frames` for operator delete that is told the size; 0 if delete is the program's own
  alignas(32) SectionDescriptor new_section;
  alignas(64) u64 birth_base[kHotClasses];  // what to add to (address >> shift)
  u64 span_mask[kHotClasses];               // bytes of the class's span, less 1
  u64 factor[kHotClasses];                  // which offsets in the span are blocks': SizeClass::begin_factor
  u64 factor_limit[kHotClasses];
  u8 byte_table[kByteTableMax + 1];
  u8 step_table[kStepTableSize];
  alignas(64) Atomic<Slab*> slab_of[RSEQ_IDS];
  u8 frame_bytes[kPrimaryFrames][2];  // FrameBytes each, see page_map.h (clang counts constructors against a limit)
};
static_assert(kHotClasses >= kClassCount);

}  // namespace freeway

extern "C" FREEWAY_HIDDEN freeway::Hot freeway_hot;

namespace freeway {

// Whether a block of the class may begin there, as the assembly finds out.
FREEWAY_INLINE bool may_begin(u64 block, unsigned c) {
  return (block & freeway_hot.span_mask[c]) * freeway_hot.factor[c] < freeway_hot.factor_limit[c];
}

}  // namespace freeway
