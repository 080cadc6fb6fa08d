// SPDX-License-Identifier: MIT
// new.S: C++'s basic forms: operator new, plain and aligned, and delete, and those of delete that are told the size
// (x86-64). The others are in new.cc.
//
// operator new is malloc's plain form once more, in a section of its own; it asks malloc, by freeway_new_slow, for
// whatever else malloc does. An object of its own: a program with the static library that does not name these forms, or
// has its own, gets none of them.
//
// Sized delete is freeway_free_sized while the program sees our delete: else HOT_DELETE_FRAMES is 0.
//
// Counted by tests/whole/golden: 16 instructions new, as malloc, 30 delete and 34 sized delete. Checked by
// tests/cache/rseq.

#include "malloc/x86_64/fast_path.inc"

#ifndef FREEWAY_PREFIXED

    .text

    SECTION_DESCRIPTOR new
    SECTION_DESCRIPTOR new_by_cpu

    .p2align 6
    .hidden freeway_own_new
    FUNCTION freeway_own_new
    REPLACEABLE _Znwm
    .cfi_startproc
    lea     r8, [rip + freeway_hot + HOT_NEW_SECTION]
    cmp     rdi, [r8 + HOT_BYTE_LIMIT AT_NEW]
    jae     .Lnew_medium
    movzx   ecx, byte ptr [r8 + rdi + HOT_BYTE_TABLE AT_NEW]
.Lnew_class:
    SECTION POP, new, NEW, AT_NEW
.Lnew_medium:
    cmp     rdi, [r8 + HOT_STEP_LIMIT AT_NEW]
    jae     freeway_new_slow
    lea     rcx, [rdi + 127]
    shr     rcx, 7
    movzx   ecx, byte ptr [r8 + rcx + HOT_STEP_TABLE AT_NEW]
    jmp     .Lnew_class
    SECTION_BY_CPU POP, new_by_cpu, NEW, freeway_new_slow, AT_NEW
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
    lea     rcx, [rsi - 1]
    cmp     rcx, HOT_STEP_SIZES - 1
    jae     freeway_aligned_new_slow
    test    rcx, rsi
    jne     freeway_aligned_new_slow
    cmp     rdi, [rip + freeway_hot + HOT_STEP_LIMIT]
    jae     freeway_aligned_new_slow
    lea     rax, [rdi + rcx]
    not     rcx
    and     rax, rcx
    je      freeway_aligned_new_slow                    // 0 bytes
    mov     rdi, rax
    jmp     freeway_own_new
    .cfi_endproc
    END     freeway_own_aligned_new, _ZnwmSt11align_val_t

    .p2align 4
    .hidden freeway_own_delete, freeway_own_aligned_delete
    FUNCTION freeway_own_delete, freeway_own_aligned_delete
    REPLACEABLE _ZdlPv, _ZdlPvSt11align_val_t
    .cfi_startproc
    jmp     freeway_own_free
    .cfi_endproc
    END     freeway_own_delete, freeway_own_aligned_delete, _ZdlPv, _ZdlPvSt11align_val_t

    .p2align 5
    REPLACEABLE _ZdlPvm
    .cfi_startproc
    SIZED   delete, HOT_DELETE_FRAMES, freeway_delete_slow
    .cfi_endproc
    END     _ZdlPvm

    .p2align 5
    REPLACEABLE _ZdaPvm
    .cfi_startproc
    SIZED   delete_array, HOT_DELETE_FRAMES, freeway_delete_array_slow
    .cfi_endproc
    END     _ZdaPvm
#endif

    .section .note.GNU-stack, "", @progbits
