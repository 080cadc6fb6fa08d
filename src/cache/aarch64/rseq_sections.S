// SPDX-License-Identifier: MIT
// rseq_sections.S: the restartable sections behind rseq_sections.h (aarch64). The steps are those of
// x86_64/rseq_sections.S; why plain stores do, fast_path.S says.
//
// In all of them: x0-x4 = arguments, unchanged up to the commit (a restart reads them again; a result waits in x11, and
// the ways out that change x0 lie behind it); x9 = slab, x10-x15 scratch.

#include "arch/aarch64/section.inc"
#include "cache/offsets.h"

    .text

// x0 = table. [2] not registered -> no slab  [3] slab = table[id]; the null slab -> no slab
.macro SECTION_BEGIN name
    SECTION_ENTER \name
    ldr     w15, [x14, #RSEQ_CPU_ID]                    // [2]
    tbnz    w15, #31, .Lno_slab
    ldr     x15, [x12, #RSEQ_PLACE_ID]                     // [3]
    ldr     w15, [x13, x15]
    ldr     x9, [x0, x15, lsl #3]
    adrp    x15, freeway_hot + HOT_NULL_SLAB
    ldr     x15, [x15, :lo12:freeway_hot + HOT_NULL_SLAB]
    cmp     x9, x15
    b.eq    .Lno_slab
.endm

.Lno_slab:
    mov     x0, #RSEQ_NO_SLAB
    ret

    // x1 = class
    SECTION_BEGIN pop
    ldr     x10, [x9, x1, lsl #3]
    ldr     x11, [x10, #-8]!                            // [4] the top block; 0: empty
    cbz     x11, 1f
    str     x10, [x9, x1, lsl #3]                       // [5] commit
.Lpost_pop:
1:  mov     x0, x11
    ret
    SECTION_END pop

    // x1 = class, x2 = block
    SECTION_BEGIN push
    ldr     x10, [x9, x1, lsl #3]
    mov     x11, #0
    ldr     x12, [x10]                                  // [4] 0: full
    cbz     x12, 1f
    str     x2, [x10], #8                               // [5]
    str     x10, [x9, x1, lsl #3]                       // [6] commit
.Lpost_push:
    mov     x11, #1
1:  mov     x0, x11
    ret
    SECTION_END push

    // x1 = class, x2 = out, x3 = count
    SECTION_BEGIN pop_batch
    ldr     x10, [x9, x1, lsl #3]
    mov     x11, #0
1:  cmp     x11, x3                                     // [4] out[i] = top[-1 - i], until 0
    b.eq    2f
    ldr     x12, [x10, #-8]
    cbz     x12, 2f
    str     x12, [x2, x11, lsl #3]
    sub     x10, x10, #8
    add     x11, x11, #1
    b       1b
2:  str     x10, [x9, x1, lsl #3]                       // [5] commit
.Lpost_pop_batch:
    mov     x0, x11
    ret
    SECTION_END pop_batch

    // x1 = class, x2 = blocks, x3 = count
    SECTION_BEGIN push_batch
    ldr     x10, [x9, x1, lsl #3]
    mov     x11, x3
1:  cbz     x11, 2f                                     // [4] top[i] = blocks[count - 1 - i], until 0
    ldr     x12, [x10]
    cbz     x12, 2f
    sub     x11, x11, #1
    ldr     x12, [x2, x11, lsl #3]
    str     x12, [x10], #8
    b       1b
2:  str     x10, [x9, x1, lsl #3]                       // [5] commit
.Lpost_push_batch:
    sub     x0, x3, x11
    ret
    SECTION_END push_batch

    // x1 = class, x2 = lowest, x3 = size, x4 = count (at least 1)
    SECTION_BEGIN push_run
    ldr     x10, [x9, x1, lsl #3]
    sub     x11, x4, #1
    madd    x13, x11, x3, x2                            // the highest
    mov     x11, x4
1:  ldr     x12, [x10]                                  // [4] top[i] = highest - i * size, until 0
    cbz     x12, 2f
    str     x13, [x10], #8
    sub     x13, x13, x3
    subs    x11, x11, #1
    b.ne    1b
2:  str     x10, [x9, x1, lsl #3]                       // [5] commit
.Lpost_push_run:
    sub     x0, x4, x11
    ret
    SECTION_END push_run

    // x1 = offset, x2 = value
    SECTION_BEGIN exchange
    ldr     x11, [x9, x1]
    str     x2, [x9, x1]                                // [4] commit
.Lpost_exchange:
    mov     x0, x11
    ret
    SECTION_END exchange

    // x1 = offset, x2 = expected, x3 = value
    SECTION_BEGIN replace
    ldr     x11, [x9, x1]
    cmp     x11, x2                                     // [4]
    b.ne    1f
    str     x3, [x9, x1]                                // [5] commit
.Lpost_replace:
1:  mov     x0, x11
    ret
    SECTION_END replace

    // x1 = class, x2 = area, x3 = bytes, x4 = closed
    SECTION_BEGIN open
    ldr     x10, [x9, x1, lsl #3]
    mov     x11, #0
    cmp     x10, x4                                     // [4] somebody opened it already
    b.ne    2f
    add     x10, x9, x2
    add     x12, x10, x3
    mov     x13, #1
    mov     x14, x10
1:  str     x13, [x14], #8                              // [5] an unfilled slot is not 0
    cmp     x14, x12
    b.lo    1b
    str     x10, [x9, x1, lsl #3]                       // [6] commit
.Lpost_open:
    mov     x11, #1
2:  mov     x0, x11
    ret
    SECTION_END open

    // x1 = class, x2 = {old area, old bytes, distance, new bytes}
    SECTION_BEGIN move
    ldr     x10, [x9, x1, lsl #3]
    ldp     x14, x15, [x2]
    add     x14, x9, x14
    mov     x11, #0
    sub     x12, x10, x14                               // [4] bytes filled; more than old bytes: it lies elsewhere
    cmp     x12, x15
    b.hi    4f
    ldp     x13, x15, [x2, #16]
    add     x15, x14, x15
1:  cmp     x14, x10                                    // [5] copy the filled slots
    b.hs    2f
    ldr     x12, [x14]
    str     x12, [x14, x13]
    add     x14, x14, #8
    b       1b
2:  mov     x12, #1                                     // [6] 1 in every other slot
3:  cmp     x14, x15
    b.hs    5f
    str     x12, [x14, x13]
    add     x14, x14, #8
    b       3b
5:  str     xzr, [x15, x13]                             // [7] the upper sentinel: a larger one may have been here
    add     x10, x10, x13
    str     x10, [x9, x1, lsl #3]                       // [8] commit
.Lpost_move:
    mov     x11, #1
4:  mov     x0, x11
    ret
    SECTION_END move

    // x1 = where the capacity is, x2 = expected capacity, x3 = end, x4 = bytes
    SECTION_BEGIN grow
    ldr     x10, [x9, x1]
    mov     x11, #0
    cmp     x10, x2                                     // [4]
    b.ne    3f
    mov     x11, #2
    add     x10, x9, x3
    ldr     x12, [x10]
    cbnz    x12, 3f                                     // [5] no sentinel here any more
    add     x12, x10, x4
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

    // x1 = offset of a word, x2 = expected, x3 = what its neighbour (offset ^ 8) must be, x4 = value
    SECTION_BEGIN store_if
    mov     x11, #0
    ldr     x10, [x9, x1]                               // [4] both words are as expected
    cmp     x10, x2
    b.ne    1f
    eor     x12, x1, #8
    ldr     x10, [x9, x12]
    cmp     x10, x3
    b.ne    1f
    str     x4, [x9, x1]                                // [5] commit
.Lpost_store_if:
    mov     x11, #1
1:  mov     x0, x11
    ret
    SECTION_END store_if

    END_OF_FILE
