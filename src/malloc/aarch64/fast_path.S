// SPDX-License-Identifier: MIT
// fast_path.S: malloc and free, from entry to return (aarch64).
//
// The steps are those of x86_64/fast_path.S, under the same numbers; its header explains them, and the checked ones.
//
//   x9 = freeway_hot (malloc), + HOT_NEW_SECTION (new), + HOT_FREE_SECTION (free)     w11 = class     x0 = the argument
//   x8 = frame (free)     x12 = struct rseq     x14 = slab     x13 = top and what leads to it     x10, x15 = scratch
//
// A restart reads x0, x8, x9 and w11, so a section changes none of them: malloc's result reaches x0 after the commit.
// The slow paths are tail calls with x0 and x30 as they came, from outside the section, by a branch that reaches
// anywhere.
//
// Orders  All plain, though this processor reorders: of [6]'s two stores the second may become visible to other CPUs
//         before the first. No thread can see that. A thread that enters the slab later on this CPU reads in this CPU's
//         program order; one that finds it on another CPU (a concurrency id that moved, a thread that migrated) comes
//         after the full barrier in the kernel's switch of threads; a drainer comes after membarrier, a barrier for
//         every CPU, which ends the sections that had begun. A fork's child gets neither store or both or the first
//         alone: a store that finds its page write-protected faults before any later one is done, and protecting waits
//         for those under way. slab_of -> slab -> top -> slot is a chain of addresses, so [4] and [5] see what the
//         slab's publisher released. A block's birth goes the way of the block (harden/births.h, Orders).
// Length  23 instructions malloc, 44 free; every field of freeway_hot is within reach of an immediate but the frames'
//         bytes.

#include "malloc/aarch64/fast_path.inc"

    .text

    // A program linked with the static library may name malloc and free alone: libc's own calls of calloc and realloc
    // must not bring in libc's malloc beside ours, so this file brings abi/malloc.cc along.
    .reloc  0, R_AARCH64_NONE, freeway_calloc

    SECTION_DESCRIPTOR malloc
    SECTION_DESCRIPTOR malloc_by_cpu
    SECTION_DESCRIPTOR free
    SECTION_DESCRIPTOR free_by_cpu
    SECTION_DESCRIPTOR checked_malloc
    SECTION_DESCRIPTOR checked_malloc_by_cpu
    SECTION_DESCRIPTOR counted_malloc
    SECTION_DESCRIPTOR counted_malloc_by_cpu
    SECTION_DESCRIPTOR checked_free
    SECTION_DESCRIPTOR checked_free_by_cpu

// All of malloc in a form that is used while the limits are 0.
.macro MALLOC form_name, form, out
    cmp     x0, #(HOT_BYTE_SIZES - 1)
    b.hi    .L\form_name\()_medium
    add     x10, x9, x0
    ldrb    w11, [x10, #HOT_BYTE_TABLE]
.L\form_name\()_malloc_class:
    SECTION POP, \form_name\()_malloc, \form
.L\form_name\()_medium:
    cmp     x0, #(HOT_STEP_SIZES - 1)
    b.hi    .Lmalloc_slow
    add     x10, x0, #127
    add     x10, x9, x10, lsr #7
    ldrb    w11, [x10, #HOT_STEP_TABLE]
    b       .L\form_name\()_malloc_class
    SECTION_BY_CPU POP, \form_name\()_malloc_by_cpu, \form, \out
.endm

    .p2align 6
    FUNCTION freeway_malloc
#ifndef FREEWAY_PREFIXED
    FUNCTION malloc
#endif
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
    SECTION POP, malloc, PLAIN
.Lmedium:
    ldr     x10, [x9, #HOT_STEP_LIMIT]
    cmp     x0, x10
    b.hs    .Lleave_malloc
    add     x10, x0, #127
    add     x10, x9, x10, lsr #7
    ldrb    w11, [x10, #HOT_STEP_TABLE]
    b       .Lmalloc_class
    SECTION_BY_CPU POP, malloc_by_cpu, PLAIN, .Lmalloc_slow
.Lleave_malloc:
    ldr     x10, [x9, #HOT_MALLOC_FORM]
    cbz     x10, .Lmalloc_slow
    cmp     x10, #MALLOC_COUNTED
    b.ne    .Luncounted_malloc

    // Counted.
    MALLOC  counted, COUNTED, .Lmalloc_drawn

.Luncounted_malloc:
    cmp     x10, #MALLOC_CHECKED
    b.ne    .Lmalloc_drawn

    // Checked.
    MALLOC  checked, CHECKED, .Lmalloc_slow
.Lmalloc_slow:
    b       freeway_malloc_slow
.Lmalloc_drawn:
    b       freeway_malloc_drawn
.Lmalloc_chosen:
    mov     x1, x14
    b       freeway_malloc_chosen
    SECTION_ABORT malloc, .Lmalloc_class
    SECTION_ABORT malloc_by_cpu, .Lmalloc_by_cpu
    SECTION_ABORT checked_malloc, .Lchecked_malloc_class
    SECTION_ABORT checked_malloc_by_cpu, .Lchecked_malloc_by_cpu
    SECTION_ABORT counted_malloc, .Lcounted_malloc_class
    SECTION_ABORT counted_malloc_by_cpu, .Lcounted_malloc_by_cpu
    .cfi_endproc
    END     freeway_malloc
#ifndef FREEWAY_PREFIXED
    END     malloc
#endif

// From [4] to [8] of free; the CPU's number is in w13.
.macro PUSH name, form, at:vararg
    add     x14, x9, #(HOT_SLAB_OF \at)
    ldr     x14, [x14, x13, lsl #3]                     // [4]
  .if \form == CHECKED
    add     x14, x14, #SLAB_REST
  .endif
    ldr     x13, [x14, x11, lsl #3]                     // [5]
    ldr     x15, [x13]
  .if \form == CHECKED
    cbz     x15, .Lfree_full
  .else
    cbz     x15, .Lleave_free
    ldr     x15, [x13, #-8]
    cmp     x15, x0
    b.eq    .Lleave_free
  .endif
    str     x0, [x13], #8                               // [6]
    str     x13, [x14, x11, lsl #3]
.Lpost_\name:
  .if \form == PLAIN
    add     x13, x14, x11                               // [8]
    ldrb    w13, [x13, #SLAB_HOME]
    OF_FRAME 10, HOT_FRAME_HOME \at
    cmp     w13, w10
    b.ne    .Lforeign
  .endif
    ret
.endm

    .p2align 6
    .hidden freeway_own_free
    FUNCTION freeway_own_free, freeway_free
#ifndef FREEWAY_PREFIXED
    FUNCTION free, cfree  // (cfree: of programs linked before glibc 2.26)
#endif
    .cfi_startproc
    LANDING_PAD
    adrp    x9, freeway_hot + HOT_FREE_SECTION
    add     x9, x9, :lo12:freeway_hot + HOT_FREE_SECTION
    ldp     x10, x12, [x9, #HOT_ARENA AT_FREE]          // and HOT_FRAMES
    sub     x8, x0, x10
    lsr     x8, x8, #16
    cmp     x8, x12
    b.hs    .Lleave_free
    OF_FRAME 11, HOT_FRAME_CLASS AT_FREE                // [1]
    .globl  freeway_inside_free                         // of a block whose class is known (new.S)
    .hidden freeway_inside_free
freeway_inside_free:
    add     x10, x9, x11, lsl #3                        // [7]
    ldr     x13, [x10, #(HOT_SPAN_MASK AT_FREE)]
    ldr     x14, [x10, #(HOT_FACTOR AT_FREE)]
    ldr     x15, [x10, #(HOT_FACTOR_LIMIT AT_FREE)]
    and     x13, x13, x0
    mul     x13, x13, x14
    cmp     x13, x15
    b.hs    .Lno_block
.Lfree_class:
    SECTION PUSH, free, PLAIN, AT_FREE
    SECTION_BY_CPU PUSH, free_by_cpu, PLAIN, .Lfree_slow, AT_FREE
.Lforeign:
    ldr     w13, [x14, #SLAB_PATIENCE]
    subs    w13, w13, #1
    str     w13, [x14, #SLAB_PATIENCE]
    b.mi    .Lsend_home
    ret
.Lno_block:
    cbz     w11, .Lfree_own
.Lleave_free:
    ldr     x10, [x9, #HOT_CHECKED AT_FREE]
    cbz     x10, .Lfree_slow

    // Checked; x10 = frames.
    cmp     x8, x10
    b.hs    .Lfree_slow
    tst     x0, #15
    b.ne    .Lfree_slow
    OF_FRAME 11, HOT_FRAME_CLASS AT_FREE
    BIRTH   0, HOT_FREE_SECTION
    add     w10, w0, #1
    ldrb    w13, [x15]
    cmp     w13, w10, uxtb
    b.ne    .Lfree_slow
    strb    wzr, [x15]
.Lchecked_free_class:
    SECTION PUSH, checked_free, CHECKED, AT_FREE
    SECTION_BY_CPU PUSH, checked_free_by_cpu, CHECKED, .Lfree_full, AT_FREE
.Lfree_slow:
    mov     x2, x8
    b       freeway_free_slow                           // (block, -, frame)
.Lfree_own:
    mov     x2, x8
    b       freeway_free_own                            // the same
.Lfree_full:
    b       freeway_free_full
.Lsend_home:
    b       freeway_send_home
    SECTION_ABORT free, .Lfree_class
    SECTION_ABORT free_by_cpu, .Lfree_by_cpu
    SECTION_ABORT checked_free, .Lchecked_free_class
    SECTION_ABORT checked_free_by_cpu, .Lchecked_free_by_cpu
    .cfi_endproc
    END     freeway_own_free, freeway_free
#ifndef FREEWAY_PREFIXED
    END     free, cfree
#endif

    .p2align 5
    FUNCTION freeway_free_sized
#ifndef FREEWAY_PREFIXED
    FUNCTION free_sized
#endif
    .cfi_startproc
    LANDING_PAD
    SIZED   free_sized, HOT_FRAMES
.Lfree_sized_out:
    b       freeway_free_sized_slow
    .cfi_endproc
    END     freeway_free_sized
#ifndef FREEWAY_PREFIXED
    END     free_sized
#endif

    // In a program without C++'s forms, whose object (new.cc) has the real one. Not a weak reference: gold makes an
    // address of one that is missing.
    .p2align 4
    .hidden freeway_delete_is_ours
    REPLACEABLE freeway_delete_is_ours
    .cfi_startproc
    LANDING_PAD
    mov     w0, #0
    ret
    .cfi_endproc
    END     freeway_delete_is_ours

    END_OF_FILE
