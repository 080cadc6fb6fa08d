// SPDX-License-Identifier: MIT
// sections.S: the sections behind sections.h and transaction.h (aarch64). The steps are those of x86_64/sections.S.
//
// In all of them: x0-x2 = arguments, unchanged up to the commit (a restart reads them again); x9 = local heap, x10-x15
// scratch. Plain stores do: who runs next on this CPU comes behind the kernel's barriers, and a superblock's words go
// to another CPU only by a CAS that releases, by a thread that ran here last.

#include "arch/aarch64/section.inc"
#include "papers/lfmalloc/layout.h"

    .text

// x13 = thread pointer, x14 = struct rseq; rseq_cs is set to `descriptor`, which stays in x15
.macro FIND_RSEQ descriptor
    adrp    x12, freeway_rseq
    add     x12, x12, :lo12:freeway_rseq
    mrs     x13, tpidr_el0
    ldr     x14, [x12, #RSEQ_PLACE_AREA]
    add     x14, x14, x13
    adrp    x15, \descriptor
    add     x15, x15, :lo12:\descriptor
.endm

// [1] rseq_cs = this section  [2] not registered -> say so  [3] heap = heaps[cpu]; null -> say so
.macro BEGIN name
    SECTION_DESCRIPTOR lfmalloc_\name
    .p2align 4
    .globl  freeway_lfmalloc_\name
    .hidden freeway_lfmalloc_\name
    .type   freeway_lfmalloc_\name, %function
freeway_lfmalloc_\name:
    .cfi_startproc
    LANDING_PAD
    FIND_RSEQ freeway_section_lfmalloc_\name
    adrp    x12, freeway_lfmalloc_heaps
    add     x12, x12, :lo12:freeway_lfmalloc_heaps
    str     x15, [x14, #RSEQ_SECTION]                   // [1]
.Lstart_lfmalloc_\name:
    ldr     w15, [x14, #RSEQ_CPU_ID]                    // [2]
    tbnz    w15, #31, .Lnot_registered
    ldr     x9, [x12, x15, lsl #3]                      // [3]
    cbz     x9, .Lno_heap
.endm

// Counts a restart; x10-x12 are scratch.
.macro COUNT_RESTART
    adrp    x10, freeway_lfmalloc_restarts
    add     x10, x10, :lo12:freeway_lfmalloc_restarts
9:  ldxr    x11, [x10]
    add     x11, x11, #1
    stxr    w12, x11, [x10]
    cbnz    w12, 9b
.endm

.macro END name
    SECTION_ABORT lfmalloc_\name, .Lagain_\name
.Lagain_\name:
    COUNT_RESTART
    b       freeway_lfmalloc_\name
    .cfi_endproc
    .size   freeway_lfmalloc_\name, . - freeway_lfmalloc_\name
.endm

.Lnot_registered:
    mov     x0, #LFMALLOC_NOT_REGISTERED
    ret
.Lno_heap:
    mov     x0, #LFMALLOC_NO_HEAP
    ret

    // malloc [5]-[9]. x0 = class; x0 = block, x1 = superblock
    BEGIN pop
    mov     x11, #0
    ldr     x10, [x9, x0, lsl #3]                       // [4] S = H[i]; null: none on line
    cbz     x10, 1f
    ldr     x12, [x10, #LFMALLOC_LOCAL]                 // [5] list = S.local; no head: empty
    ands    x13, x12, #LFMALLOC_HEAD_MASK
    b.eq    1f
    ldr     x14, [x10, #LFMALLOC_BASE]
    add     x11, x14, x13, lsl #4                       // [6] the block
    sub     x12, x12, x13
    ldr     x13, [x11]
    add     x12, x12, x13                               // [7] the list below it
    sub     x12, x12, #LFMALLOC_ONE_BLOCK
    str     x12, [x10, #LFMALLOC_LOCAL]                 // [8] commit
.Lpost_lfmalloc_pop:
1:  mov     x0, x11
    mov     x1, x10
    ret
    END pop

    // free [4]-[7]. x0 = class, x1 = superblock, x2 = block
    BEGIN push
    mov     x11, #0
    ldr     x10, [x9, x0, lsl #3]
    cmp     x10, x1                                     // [4] on line here: local
    b.ne    1f
    ldr     x12, [x1, #LFMALLOC_LOCAL]                  // [5] list = S.local
    and     x13, x12, #LFMALLOC_HEAD_MASK
    str     x13, [x2]                                   // [6] the block's link
    sub     x12, x12, x13
    ubfx    x13, x2, #4, #12
    add     x12, x12, x13
    add     x12, x12, #LFMALLOC_ONE_BLOCK               // [7] the block on top
    str     x12, [x1, #LFMALLOC_LOCAL]                  // [8] commit
.Lpost_lfmalloc_push:
    mov     x11, #1
1:  mov     x0, x11
    ret
    END push

    // malloc [25]. x0 = class, x1 = expected, x2 = fresh
    BEGIN install
    ldr     x11, [x9, x0, lsl #3]
    cmp     x11, x1                                     // [4]
    b.ne    1f
    str     x2, [x9, x0, lsl #3]                        // [5] commit
.Lpost_lfmalloc_install:
1:  mov     x0, x11
    ret
    END install

// The transactional layer: see x86_64/sections.S.
    SECTION_DESCRIPTOR lfmalloc_transaction
.macro FUNCTION name
    .globl  freeway_lfmalloc_\name
    .hidden freeway_lfmalloc_\name
    .type   freeway_lfmalloc_\name, %function
freeway_lfmalloc_\name:
.endm

    // [1] rseq_cs = the transaction  [2] the CPU's number, negative: not registered
    .p2align 4
    FUNCTION start
    .cfi_startproc
    LANDING_PAD
    FIND_RSEQ freeway_section_lfmalloc_transaction
    str     x15, [x14, #RSEQ_SECTION]                   // [1]
    ldrsw   x0, [x14, #RSEQ_CPU_ID]                     // [2]
    ret
    .cfi_endproc
    .size   freeway_lfmalloc_start, . - freeway_lfmalloc_start

    // [1] rseq_cs = 0
    FUNCTION abandon
    .cfi_startproc
    LANDING_PAD
    FIND_RSEQ freeway_section_lfmalloc_transaction
    str     xzr, [x14, #RSEQ_SECTION]                   // [1]
    ret
    .cfi_endproc
    .size   freeway_lfmalloc_abandon, . - freeway_lfmalloc_abandon

    // x0 = address, x1 = where the value goes; x0 = 1: done
    // [1] rseq_cs is not the transaction: interference  [2] load
    FUNCTION conditional_load
    .cfi_startproc
    LANDING_PAD
    FIND_RSEQ freeway_section_lfmalloc_transaction
.Lstart_lfmalloc_transaction:
    mov     x11, #0
    ldr     x10, [x14, #RSEQ_SECTION]                   // [1]
    cmp     x10, x15
    b.ne    1f
    ldr     x10, [x0]                                   // [2]
    str     x10, [x1]
    mov     x11, #1
1:  mov     x0, x11
    ret
    .cfi_endproc
    .size   freeway_lfmalloc_conditional_load, . - freeway_lfmalloc_conditional_load

    // x0 = address, x1 = value; x0 = 1: done
    // [1] rseq_cs is not the transaction: interference  [2] store, commit  [3] rseq_cs = 0: it is over
    FUNCTION conditional_store
    .cfi_startproc
    LANDING_PAD
    FIND_RSEQ freeway_section_lfmalloc_transaction
    mov     x11, #0
    ldr     x10, [x14, #RSEQ_SECTION]                   // [1]
    cmp     x10, x15
    b.ne    1f
    str     x1, [x0]                                    // [2]
.Lpost_lfmalloc_transaction:
    str     xzr, [x14, #RSEQ_SECTION]                   // [3]
    mov     x11, #1
1:  mov     x0, x11
    ret
    SECTION_ABORT lfmalloc_transaction, .Linterfered
.Linterfered:
    COUNT_RESTART
    mov     x0, #0
    ret
    .cfi_endproc
    .size   freeway_lfmalloc_conditional_store, . - freeway_lfmalloc_conditional_store

    END_OF_FILE
