// SPDX-License-Identifier: MIT
// dlopen.S: dlopen in front of the C library's, without RTLD_DEEPBIND (aarch64). Why it jumps: x86_64/dlopen.S.
//
// x0 = name, w1 = flags, x30 = the return address: all stay for the next dlopen. x16: a jump through it may land on
// `bti c`.

#include "arch/aarch64/section.inc"

    .text

    .p2align 4
    .globl  dlopen
    .type   dlopen, %function
dlopen:
    .cfi_startproc
    LANDING_PAD
    adrp    x16, freeway_next_dlopen
    add     x16, x16, :lo12:freeway_next_dlopen
    ldar    x16, [x16]                                  // [A1] pairs with dlopen.cc:[R1]
    cbz     x16, 2f
1:  adrp    x9, freeway_dlopen_flags
    ldr     w9, [x9, :lo12:freeway_dlopen_flags]
    and     w1, w1, w9
    br      x16

2:  stp     x29, x30, [sp, #-32]!
    .cfi_adjust_cfa_offset 32
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    stp     x0, x1, [sp, #16]
    bl      freeway_find_dlopen
    mov     x16, x0
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #32
    .cfi_adjust_cfa_offset -32
    .cfi_restore x29
    .cfi_restore x30
    b       1b
    .cfi_endproc
    .size   dlopen, . - dlopen

    END_OF_FILE
