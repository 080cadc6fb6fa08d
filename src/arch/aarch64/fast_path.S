// SPDX-License-Identifier: MIT
// fast_path.S: malloc and free, from entry to return (aarch64).
//
// The steps are those of x86_64/fast_path.S, under the same numbers; its header says what they do and why.
//
//   x9 = freeway_hot (malloc), freeway_hot + HOT_FREE_SECTION (free)     w11 = class       x0 = the argument
//   x12 = struct rseq     x14 = slab     x13 = top and what leads to it     x10, x15 = scratch
//
// A restart reads x0, x9 and w11, so a section changes none of them: malloc's result reaches x0 after the commit. The
// slow paths are tail calls with x0 and x30 as they came, from outside the section, by a branch that reaches anywhere.
//
// Orders  All plain, though this processor reorders: [7] may become visible to other CPUs before [6]. Nobody is there to
//         see it. Whoever enters the slab later on this CPU reads in this CPU's program order; whoever finds it on another
//         (a concurrency id that moved, a thread that migrated) comes after the full barrier in the kernel's switch of
//         threads; a drainer comes after membarrier, which is one for every CPU and ends the sections that had begun. A
//         fork's child gets neither store or both or [6] alone: a store that finds its page write-protected faults before
//         any later one is done, and protecting waits for those under way.
//         slab_of -> slab -> top -> slot is a chain of addresses, so [4] and [5] see what the slab's publisher released.
// Length  23 instructions malloc, 25 free; every field of freeway_hot is within reach of an immediate but frame_class.

#include "arch/slab_layout.h"
#include "section.inc"

    .text

    // A program linked with the static library may name malloc and free alone: libc's own calls of calloc and realloc must
    // not bring in libc's malloc beside ours, so whoever takes this file takes abi/malloc.cc.
    .reloc  0, R_AARCH64_NONE, freeway_calloc

    SECTION_DESCRIPTOR malloc
    SECTION_DESCRIPTOR malloc_by_cpu
    SECTION_DESCRIPTOR free
    SECTION_DESCRIPTOR free_by_cpu

    .p2align 6
    .globl  freeway_malloc
    .type   freeway_malloc, %function
#ifndef FREEWAY_PREFIXED
    .globl  malloc
    .type   malloc, %function
malloc:
#endif
freeway_malloc:
    .cfi_startproc
    LANDING_PAD
    adrp    x9, freeway_hot
    add     x9, x9, :lo12:freeway_hot
    ldr     x10, [x9, #HOT_BYTE_LIMIT]
    cmp     x0, x10
    b.hs    .Lmedium
    add     x10, x9, x0
    ldrb    w11, [x10, #HOT_BYTE_TABLE]                 // [1]
.Lmalloc_class:
    mrs     x13, tpidr_el0
    ldr     x12, [x9, #HOT_RSEQ]
    add     x12, x12, x13
    str     x9, [x12, #RSEQ_SECTION]                    // [2]
.Lstart_malloc:
    ldr     w13, [x12, #RSEQ_CPU_ID]                    // [3]
    tbnz    w13, #31, .Lmalloc_by_cpu
    ldr     w13, [x12, #RSEQ_MM_CID]                    // [4]
    add     x14, x9, #HOT_SLAB_OF
    ldr     x14, [x14, x13, lsl #3]
    ldr     x13, [x14, x11, lsl #3]                     // [5]
    ldr     x15, [x13, #-8]!
    cbz     x15, .Lmalloc_slow
    str     x13, [x14, x11, lsl #3]                     // [6]
.Lpost_malloc:
    mov     x0, x15
    ret

.Lmedium:
    ldr     x10, [x9, #HOT_STEP_LIMIT]
    cmp     x0, x10
    b.hs    .Lmalloc_slow
    add     x10, x0, #127
    add     x10, x9, x10, lsr #7
    ldrb    w11, [x10, #HOT_STEP_TABLE]
    b       .Lmalloc_class

    // The same by cpu_id: kernels without mm_cid (before Linux 6.3). The class is in w11.
.Lmalloc_by_cpu:
    mrs     x13, tpidr_el0
    ldr     x12, [x9, #HOT_CPU_RSEQ]
    add     x12, x12, x13
    adrp    x13, freeway_section_malloc_by_cpu
    add     x13, x13, :lo12:freeway_section_malloc_by_cpu
    str     x13, [x12, #RSEQ_SECTION]
.Lstart_malloc_by_cpu:
    ldr     w13, [x12, #RSEQ_CPU_ID]
    tbnz    w13, #31, .Lmalloc_slow
    add     x14, x9, #HOT_SLAB_OF
    ldr     x14, [x14, x13, lsl #3]
    ldr     x13, [x14, x11, lsl #3]
    ldr     x15, [x13, #-8]!
    cbz     x15, .Lmalloc_slow
    str     x13, [x14, x11, lsl #3]
.Lpost_malloc_by_cpu:
    mov     x0, x15
    ret

.Lmalloc_slow:
    b       freeway_malloc_slow
    SECTION_ABORT malloc, .Lmalloc_class
    SECTION_ABORT malloc_by_cpu, .Lmalloc_by_cpu
    .cfi_endproc
    .size   freeway_malloc, . - freeway_malloc
#ifndef FREEWAY_PREFIXED
    .size   malloc, . - malloc
#endif

    .p2align 6
    .globl  freeway_free
    .type   freeway_free, %function
#ifndef FREEWAY_PREFIXED
    .globl  free
    .type   free, %function
free:
#endif
freeway_free:
    .cfi_startproc
    LANDING_PAD
    adrp    x9, freeway_hot + HOT_FREE_SECTION
    add     x9, x9, :lo12:freeway_hot + HOT_FREE_SECTION
    ldp     x10, x12, [x9, #HOT_ARENA - HOT_FREE_SECTION]   // and HOT_FRAMES
    sub     x10, x0, x10
    cmp     x12, x10, lsr #16
    b.ls    .Lfree_slow
    add     x10, x9, x10, lsr #16
    add     x10, x10, #((HOT_FRAME_CLASS - HOT_FREE_SECTION) & ~0xfff)
    ldrb    w11, [x10, #((HOT_FRAME_CLASS - HOT_FREE_SECTION) & 0xfff)]     // [1]
.Lfree_class:
    mrs     x13, tpidr_el0
    ldr     x12, [x9, #HOT_RSEQ - HOT_FREE_SECTION]
    add     x12, x12, x13
    str     x9, [x12, #RSEQ_SECTION]                    // [2]
.Lstart_free:
    ldr     w13, [x12, #RSEQ_CPU_ID]                    // [3]
    tbnz    w13, #31, .Lfree_by_cpu
    ldr     w13, [x12, #RSEQ_MM_CID]                    // [4]
    add     x14, x9, #HOT_SLAB_OF - HOT_FREE_SECTION
    ldr     x14, [x14, x13, lsl #3]
    ldr     x13, [x14, x11, lsl #3]                     // [5]
    ldr     x15, [x13]
    cbz     x15, .Lfree_slow
    str     x0, [x13], #8                               // [6]
    str     x13, [x14, x11, lsl #3]                     // [7]
.Lpost_free:
    ret

.Lfree_by_cpu:
    mrs     x13, tpidr_el0
    ldr     x12, [x9, #HOT_CPU_RSEQ - HOT_FREE_SECTION]
    add     x12, x12, x13
    adrp    x13, freeway_section_free_by_cpu
    add     x13, x13, :lo12:freeway_section_free_by_cpu
    str     x13, [x12, #RSEQ_SECTION]
.Lstart_free_by_cpu:
    ldr     w13, [x12, #RSEQ_CPU_ID]
    tbnz    w13, #31, .Lfree_slow
    add     x14, x9, #HOT_SLAB_OF - HOT_FREE_SECTION
    ldr     x14, [x14, x13, lsl #3]
    ldr     x13, [x14, x11, lsl #3]
    ldr     x15, [x13]
    cbz     x15, .Lfree_slow
    str     x0, [x13], #8
    str     x13, [x14, x11, lsl #3]
.Lpost_free_by_cpu:
    ret

.Lfree_slow:
    b       freeway_free_slow
    SECTION_ABORT free, .Lfree_class
    SECTION_ABORT free_by_cpu, .Lfree_by_cpu
    .cfi_endproc
    .size   freeway_free, . - freeway_free
#ifndef FREEWAY_PREFIXED
    .size   free, . - free
#endif

    END_OF_FILE
