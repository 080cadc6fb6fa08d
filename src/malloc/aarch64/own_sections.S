// SPDX-License-Identifier: MIT
// own_sections.S: the sections behind own_sections.h (aarch64). The steps are those of x86_64/own_sections.S.
//
// In all of them: x0-x2 = arguments, unchanged up to the commit; x9 = slab, x10-x15 scratch.

#include "arch/aarch64/section.inc"
#include "cache/offsets.h"
#include "malloc/offsets.h"

    .text

// `heap`: a heap's address. [1] rseq_cs  [2] not registered -> `none`  [3] x9 = its slab, or the null slab, whose
// magazines are empty, and full
.macro SECTION_BEGIN_OWN name, heap, none
    SECTION_ENTER \name
    ldr     w15, [x14, #RSEQ_CPU_ID]                    // [2]
    tbnz    w15, #31, \none
    ldr     x15, [x12, #RSEQ_PLACE_ID]                     // [3]
    ldr     w15, [x13, x15]
    ldr     w9, [\heap, #OWN_IDS]
    cmp     w15, w9
    b.hs    \none
    add     x9, \heap, #OWN_SLAB_OF
    ldr     x9, [x9, x15, lsl #3]
.endm

// x0 = heap, x1 = bytes, x2 = class. A block of it, or what is done at `none`.
.macro GIVE_OWN name, none
    SECTION_BEGIN_OWN \name, x0, \none
    add     x10, x9, x2, lsl #3                         // [4] the magazine's top block: top = top - 8
    ldr     x12, [x10]
    ldr     x11, [x12, #-8]!
    cbnz    x11, 2f
    adrp    x15, freeway_hot + HOT_NULL_SLAB
    ldr     x15, [x15, :lo12:freeway_hot + HOT_NULL_SLAB]
    cmp     x9, x15
    b.eq    \none
    ldr     x13, [x9, #OWN_STRIP_BASE]                  // [5] none: the strip's next block, next moved behind it
    cbz     x13, \none
    adrp    x14, freeway_strip_sizes
    add     x14, x14, :lo12:freeway_strip_sizes
    ldr     w14, [x14, x2, lsl #2]
    mov     x10, #OWN_STRIP_NEXT
    add     x10, x9, x10
    ldr     x11, [x10]
    add     x12, x11, x14
    ldr     x14, [x13, #OWN_STRIP_END]
    cmp     x12, x14
    b.hi    \none
    ldr     x13, [x13, #OWN_STRIP_KINDS]
    lsr     x14, x11, #4
    strb    w2, [x13, x14]
2:  str     x12, [x10]                                  // [6] commit
.Lpost_\name:
    mov     x0, x11
    ret
    SECTION_END \name
.endm

    GIVE_OWN give_own, .Lnothing
    GIVE_OWN malloc_own, .Lmalloc_own_slow
.Lnothing:
    mov     x0, #0
    ret
.Lmalloc_own_slow:
    b       freeway_malloc_own_slow

    // x0 = block, x1 = class, x2 = heap
    SECTION_BEGIN_OWN free_own, x2, .Lfree_otherwise
    ldr     x10, [x9, x1, lsl #3]
    ldr     x12, [x10, #-8]                             // [4] it lies on top
    cmp     x12, x0
    b.eq    .Lfree_otherwise
    ldr     x12, [x10]                                  // [5] 0: full
    cbz     x12, .Lfree_otherwise
    str     x0, [x10], #8                               // [6]
    str     x10, [x9, x1, lsl #3]                       // [7] commit
.Lpost_free_own:
    ret
    SECTION_END free_own
.Lfree_otherwise:
    b       freeway_free_otherwise

    END_OF_FILE
