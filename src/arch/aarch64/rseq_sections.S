// SPDX-License-Identifier: MIT
// rseq_sections.S: the restartable sections behind rseq.h (aarch64). The steps are those of x86_64/rseq_sections.S; why
// plain stores do, fast_path.S says.
//
// In all of them: x0-x4 = arguments, unchanged up to the commit (a restart reads them again; a result waits in x11, and
// the ways out that change x0 lie behind it); x9 = slab, x10-x15 scratch.

#include "arch/offsets.h"
#include "section.inc"

    .text

// [1] rseq_cs = this section. x12 = freeway_hot, x13 = thread pointer, x14 = struct rseq
.macro SECTION_ENTER name
    SECTION_DESCRIPTOR \name
    .p2align 4
    .globl  freeway_rseq_\name
    .hidden freeway_rseq_\name
    .type   freeway_rseq_\name, %function
freeway_rseq_\name:
    .cfi_startproc
    LANDING_PAD
    adrp    x12, freeway_hot
    add     x12, x12, :lo12:freeway_hot
    mrs     x13, tpidr_el0
    ldr     x14, [x12, #HOT_ANY_RSEQ]
    add     x14, x14, x13
    adrp    x15, freeway_section_\name
    add     x15, x15, :lo12:freeway_section_\name
    str     x15, [x14, #RSEQ_SECTION]                   // [1]
.Lstart_\name:
.endm

// [2] not registered -> no slab  [3] slab = slab_of[id]; the null slab -> no slab
.macro SECTION_BEGIN name
    SECTION_ENTER \name
    ldr     w15, [x14, #RSEQ_CPU_ID]                    // [2]
    tbnz    w15, #31, .Lno_slab
    ldr     x15, [x12, #HOT_ANY_ID]                     // [3]
    ldr     w15, [x13, x15]
    add     x9, x12, #HOT_SLAB_OF
    ldr     x9, [x9, x15, lsl #3]
    ldr     x15, [x12, #HOT_NULL_SLAB]
    cmp     x9, x15
    b.eq    .Lno_slab
.endm

.macro SECTION_END name
    SECTION_ABORT \name, freeway_rseq_\name
    .cfi_endproc
    .size   freeway_rseq_\name, . - freeway_rseq_\name
.endm

.Lno_slab:
    mov     x0, #RSEQ_NO_SLAB
    ret

    // x0 = class
    SECTION_BEGIN pop
    ldr     x10, [x9, x0, lsl #3]
    ldr     x11, [x10, #-8]!                            // [4] the top block; 0: empty
    cbz     x11, 1f
    str     x10, [x9, x0, lsl #3]                       // [5] commit
.Lpost_pop:
1:  mov     x0, x11
    ret
    SECTION_END pop

    // x0 = class, x1 = block
    SECTION_BEGIN push
    ldr     x10, [x9, x0, lsl #3]
    mov     x11, #0
    ldr     x12, [x10]                                  // [4] 0: full
    cbz     x12, 1f
    str     x1, [x10], #8                               // [5]
    str     x10, [x9, x0, lsl #3]                       // [6] commit
.Lpost_push:
    mov     x11, #1
1:  mov     x0, x11
    ret
    SECTION_END push

    // x0 = class, x1 = out, x2 = count
    SECTION_BEGIN pop_batch
    ldr     x10, [x9, x0, lsl #3]
    mov     x11, #0
1:  cmp     x11, x2                                     // [4] out[i] = top[-1 - i], until 0
    b.eq    2f
    ldr     x12, [x10, #-8]
    cbz     x12, 2f
    str     x12, [x1, x11, lsl #3]
    sub     x10, x10, #8
    add     x11, x11, #1
    b       1b
2:  str     x10, [x9, x0, lsl #3]                       // [5] commit
.Lpost_pop_batch:
    mov     x0, x11
    ret
    SECTION_END pop_batch

    // x0 = class, x1 = blocks, x2 = count
    SECTION_BEGIN push_batch
    ldr     x10, [x9, x0, lsl #3]
    mov     x11, x2
1:  cbz     x11, 2f                                     // [4] top[i] = blocks[count - 1 - i], until 0
    ldr     x12, [x10]
    cbz     x12, 2f
    sub     x11, x11, #1
    ldr     x12, [x1, x11, lsl #3]
    str     x12, [x10], #8
    b       1b
2:  str     x10, [x9, x0, lsl #3]                       // [5] commit
.Lpost_push_batch:
    sub     x0, x2, x11
    ret
    SECTION_END push_batch

    // x0 = class, x1 = lowest, x2 = size, x3 = count (at least 1)
    SECTION_BEGIN push_run
    ldr     x10, [x9, x0, lsl #3]
    sub     x11, x3, #1
    madd    x13, x11, x2, x1                            // the highest
    mov     x11, x3
1:  ldr     x12, [x10]                                  // [4] top[i] = highest - i * size, until 0
    cbz     x12, 2f
    str     x13, [x10], #8
    sub     x13, x13, x2
    subs    x11, x11, #1
    b.ne    1b
2:  str     x10, [x9, x0, lsl #3]                       // [5] commit
.Lpost_push_run:
    sub     x0, x3, x11
    ret
    SECTION_END push_run

    // x0 = offset, x1 = value
    SECTION_BEGIN exchange
    ldr     x11, [x9, x0]
    str     x1, [x9, x0]                                // [4] commit
.Lpost_exchange:
    mov     x0, x11
    ret
    SECTION_END exchange

    // x0 = offset, x1 = expected, x2 = value
    SECTION_BEGIN replace
    ldr     x11, [x9, x0]
    cmp     x11, x1                                     // [4]
    b.ne    1f
    str     x2, [x9, x0]                                // [5] commit
.Lpost_replace:
1:  mov     x0, x11
    ret
    SECTION_END replace

    // x0 = class, x1 = area, x2 = bytes, x3 = closed
    SECTION_BEGIN open
    ldr     x10, [x9, x0, lsl #3]
    mov     x11, #0
    cmp     x10, x3                                     // [4] somebody opened it already
    b.ne    2f
    add     x10, x9, x1
    add     x12, x10, x2
    mov     x13, #1
    mov     x14, x10
1:  str     x13, [x14], #8                              // [5] an unfilled slot is not 0
    cmp     x14, x12
    b.lo    1b
    str     x10, [x9, x0, lsl #3]                       // [6] commit
.Lpost_open:
    mov     x11, #1
2:  mov     x0, x11
    ret
    SECTION_END open

    // x0 = class, x1 = old area, x2 = old bytes, x3 = distance, x4 = new bytes
    SECTION_BEGIN move
    ldr     x10, [x9, x0, lsl #3]
    add     x14, x9, x1
    mov     x11, #0
    sub     x12, x10, x14                               // [4] bytes filled; more than old bytes: it lies elsewhere
    cmp     x12, x2
    b.hi    4f
1:  cmp     x14, x10                                    // [5] copy what is filled
    b.hs    2f
    ldr     x12, [x14]
    str     x12, [x14, x3]
    add     x14, x14, #8
    b       1b
2:  add     x12, x9, x1                                 // [6] 1 in every other slot
    add     x12, x12, x4
    mov     x13, #1
3:  cmp     x14, x12
    b.hs    5f
    str     x13, [x14, x3]
    add     x14, x14, #8
    b       3b
5:  str     xzr, [x12, x3]                              // [7] the upper sentinel: a larger one may have been here
    add     x10, x10, x3
    str     x10, [x9, x0, lsl #3]                       // [8] commit
.Lpost_move:
    mov     x11, #1
4:  mov     x0, x11
    ret
    SECTION_END move

    // x0 = where the capacity is, x1 = expected capacity, x2 = end, x3 = bytes
    SECTION_BEGIN grow
    ldr     x10, [x9, x0]
    mov     x11, #0
    cmp     x10, x1                                     // [4]
    b.ne    3f
    mov     x11, #2
    add     x10, x9, x2
    ldr     x12, [x10]
    cbnz    x12, 3f                                     // [5] no sentinel here any more
    add     x12, x10, x3
    str     xzr, [x12]                                  // [6] the new sentinel
    mov     x13, #1
    add     x14, x10, #8
1:  cmp     x14, x12                                    // [7] 1 in every slot between
    b.hs    2f
    str     x13, [x14], #8
    b       1b
2:  str     x13, [x10]                                  // [8] commit
.Lpost_grow:
    mov     x11, #1
3:  mov     x0, x11
    ret
    SECTION_END grow

// Sections of no slab. x0 = the owner, a word: [1], [2] as above  [3] id != owner -> 0. Its load is an acquire: it publishes what the
// section reads then
.macro SECTION_BEGIN_AT name
    SECTION_ENTER \name
    mov     x11, #0
    ldr     w15, [x14, #RSEQ_CPU_ID]                    // [2]
    tbnz    w15, #31, 1f
    ldr     x15, [x12, #HOT_ANY_ID]                     // [3]
    ldr     w15, [x13, x15]
    ldar    x10, [x0]
    cmp     x15, x10
    b.ne    1f
.endm

    // x1 = word, x2 = expected, x3 = another word, x4 = what that must be, x5 = value
    SECTION_BEGIN_AT store_if
    ldr     x15, [x3]                                   // [4] both words are what is expected
    cmp     x15, x4
    b.ne    1f
    ldr     x15, [x1]
    cmp     x15, x2
    b.ne    1f
    str     x5, [x1]                                    // [5] commit
.Lpost_store_if:
    mov     x11, #1
1:  mov     x0, x11
    ret
    SECTION_END store_if

    // x1 = top
    SECTION_BEGIN_AT pop_own
    ldr     x10, [x1]
    ldr     x11, [x10, #-8]!                            // [4] the top block; 0: empty
    cbz     x11, 1f
    str     x10, [x1]                                   // [5] commit
.Lpost_pop_own:
1:  mov     x0, x11
    ret
    SECTION_END pop_own

// The same on the cache of this CPU. x1 = entry's offset: [1], [2] as above  [3] x9 = entry; no cache -> `none`
.macro SECTION_BEGIN_OWN name, heap, none
    SECTION_ENTER \name
    ldr     w15, [x14, #RSEQ_CPU_ID]                    // [2]
    tbnz    w15, #31, \none
    ldr     x15, [x12, #HOT_ANY_ID]                     // [3]
    ldr     w15, [x13, x15]
    ldr     w9, [\heap, #OWN_IDS]
    cmp     w15, w9
    b.hs    \none
    add     x9, \heap, #OWN_CACHE_OF
    ldr     x9, [x9, x15, lsl #3]
    cbz     x9, \none
    add     x9, x9, x1
.endm

// x0 = heap. A block of it, or what is done at `none`.
.macro GIVE_OWN name, none
    SECTION_BEGIN_OWN \name, x0, \none
    add     x10, x9, #OWN_TOP                           // [4] the magazine's top block: top = top - 8
    ldr     x12, [x10]
    ldr     x11, [x12, #-8]!
    cbnz    x11, 2f
    ldr     x13, [x9, #OWN_BASE]                        // [5] there is none: a block of the slice, its bit taken off free
    cbz     x13, 3f
    add     x10, x9, #OWN_FREE
    ldr     x12, [x10]
    cbz     x12, \none
    rbit    x14, x12
    clz     x14, x14
    ldr     w15, [x13, #OWN_SLICE_SIZE]
    ldr     x13, [x13, #OWN_SLICE_ADDRESS]
    madd    x11, x14, x15, x13
    sub     x15, x12, #1
    and     x12, x12, x15
    b       2f
3:  ldr     w14, [x9, #OWN_SIZE]                        // [6] nor one: the strip's next block, next moved behind it
    ldr     w15, [x9, #OWN_CLASS]
    sub     x9, x9, x1
    ldr     x13, [x9, #OWN_STRIP_BASE]
    cbz     x13, \none
    add     x10, x9, #OWN_STRIP_NEXT
    ldr     x11, [x10]
    add     x12, x11, x14
    ldr     x14, [x13, #OWN_SLICE_END]
    cmp     x12, x14
    b.hi    \none
    ldr     x13, [x13, #OWN_SLICE_KINDS]
    lsr     x14, x11, #4
    strb    w15, [x13, x14]
2:  str     x12, [x10]                                  // [7] commit
.Lpost_\name:
    mov     x0, x11
    ret
    SECTION_END \name
.endm

    GIVE_OWN give_own, .Lnothing
    GIVE_OWN malloc_own, .Lmalloc_own_slow              // x2 = bytes
.Lnothing:
    mov     x0, #0
    ret
.Lmalloc_own_slow:
    b       freeway_malloc_own_slow

    // x2 = block, x3 = slice, x4 = bit; both 0: of a strip
    SECTION_BEGIN_OWN lay_own, x0, .Lnothing
    mov     x11, #0
    ldr     x10, [x9, #OWN_TOP]
    ldr     x12, [x10, #-8]                             // [4] it lies on top; or is the slice's, and in hand
    cmp     x12, x2
    b.eq    3f
    ldr     x12, [x9, #OWN_BASE]
    cmp     x12, x3
    b.ne    2f
    ldr     x12, [x9, #OWN_FREE]
    tst     x12, x4
    b.ne    3f
2:  ldr     x12, [x10]                                  // [5] 0: full
    cbz     x12, 1f
    str     x2, [x10], #8                               // [6]
    str     x10, [x9, #OWN_TOP]                         // [7] commit
.Lpost_lay_own:
    mov     x11, #1
1:  mov     x0, x11
    ret
3:  mov     x0, #2
    ret
    SECTION_END lay_own

    // x0 = block, of a strip, x2 = heap: as lay_own, or what free does otherwise
    SECTION_BEGIN_OWN free_own, x2, .Lfree_otherwise
    ldr     x10, [x9, #OWN_TOP]
    ldr     x12, [x10, #-8]                             // [4]
    cmp     x12, x0
    b.eq    .Lfree_otherwise
    ldr     x12, [x10]                                  // [5]
    cbz     x12, .Lfree_otherwise
    str     x0, [x10], #8                               // [6]
    str     x10, [x9, #OWN_TOP]                         // [7] commit
.Lpost_free_own:
    ret
    SECTION_END free_own
.Lfree_otherwise:
    b       freeway_free_otherwise

    END_OF_FILE
