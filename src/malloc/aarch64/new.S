// SPDX-License-Identifier: MIT
// new.S: C++'s basic forms: operator new, plain and aligned, and delete, and those of delete that are told the size
// (aarch64). The others are in new.cc.
//
// operator new is malloc's plain form once more, in a section of its own; it asks malloc, by freeway_new_slow, for
// whatever else malloc does. An object of its own: a program with the static library that does not name these forms, or
// has its own, gets none of them.
//
// Sized delete is freeway_free_sized while the program sees our delete: else HOT_DELETE_FRAMES is 0.
//
// Length  23 instructions new, as malloc, and 46 delete.

#include "malloc/aarch64/fast_path.inc"

#ifndef FREEWAY_PREFIXED

    .text

    SECTION_DESCRIPTOR new
    SECTION_DESCRIPTOR new_by_cpu

    .p2align 6
    .hidden freeway_own_new
    FUNCTION freeway_own_new
    REPLACEABLE _Znwm
    .cfi_startproc
    LANDING_PAD
    adrp    x9, freeway_hot + HOT_NEW_SECTION
    add     x9, x9, :lo12:freeway_hot + HOT_NEW_SECTION
    ldr     x10, [x9, #(HOT_BYTE_LIMIT AT_NEW)]
    cmp     x0, x10
    b.hs    .Lnew_medium
    add     x10, x9, x0
    ldrb    w11, [x10, #(HOT_BYTE_TABLE AT_NEW)]
.Lnew_class:
    SECTION POP, new, NEW, AT_NEW
.Lnew_medium:
    ldr     x10, [x9, #(HOT_STEP_LIMIT AT_NEW)]
    cmp     x0, x10
    b.hs    .Lnew_slow
    add     x10, x0, #127
    add     x10, x9, x10, lsr #7
    ldrb    w11, [x10, #(HOT_STEP_TABLE AT_NEW)]
    b       .Lnew_class
    SECTION_BY_CPU POP, new_by_cpu, NEW, .Lnew_slow, AT_NEW
.Lnew_slow:
    b       freeway_new_slow
    SECTION_ABORT new, .Lnew_class
    SECTION_ABORT new_by_cpu, .Lnew_by_cpu
    .cfi_endproc
    END     freeway_own_new, _Znwm

    // operator new(size, alignment): new of the size rounded up, whose blocks are so aligned (class_of_aligned).
    .p2align 5
    .hidden freeway_own_aligned_new
    FUNCTION freeway_own_aligned_new
    REPLACEABLE _ZnwmSt11align_val_t
    .cfi_startproc
    LANDING_PAD
    sub     x10, x1, #1
    cmp     x10, #(HOT_STEP_SIZES - 1)
    b.hs    .Laligned_new_slow
    tst     x10, x1
    b.ne    .Laligned_new_slow
    adrp    x9, freeway_hot
    add     x9, x9, :lo12:freeway_hot
    ldr     x11, [x9, #HOT_STEP_LIMIT]
    cmp     x0, x11
    b.hs    .Laligned_new_slow
    add     x11, x0, x10
    bics    x11, x11, x10
    b.eq    .Laligned_new_slow                          // 0 bytes
    mov     x0, x11
    b       freeway_own_new
.Laligned_new_slow:
    b       freeway_aligned_new_slow
    .cfi_endproc
    END     freeway_own_aligned_new, _ZnwmSt11align_val_t

    .p2align 4
    .hidden freeway_own_delete, freeway_own_aligned_delete
    FUNCTION freeway_own_delete, freeway_own_aligned_delete
    REPLACEABLE _ZdlPv, _ZdlPvSt11align_val_t
    .cfi_startproc
    LANDING_PAD
    b       freeway_own_free
    .cfi_endproc
    END     freeway_own_delete, freeway_own_aligned_delete, _ZdlPv, _ZdlPvSt11align_val_t

    .p2align 5
    REPLACEABLE _ZdlPvm
    .cfi_startproc
    LANDING_PAD
    SIZED   delete, HOT_DELETE_FRAMES
.Ldelete_out:
    b       freeway_delete_slow
    .cfi_endproc
    END     _ZdlPvm

    .p2align 5
    REPLACEABLE _ZdaPvm
    .cfi_startproc
    LANDING_PAD
    SIZED   delete_array, HOT_DELETE_FRAMES
.Ldelete_array_out:
    b       freeway_delete_array_slow
    .cfi_endproc
    END     _ZdaPvm
#endif

    END_OF_FILE
