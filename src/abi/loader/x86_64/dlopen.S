// SPDX-License-Identifier: MIT
// dlopen.S: dlopen in front of the C library's, without RTLD_DEEPBIND (x86-64).
//
// It jumps, since the C library takes the return address for the caller's, from which RUNPATH, $ORIGIN and the
// namespace follow. rdi = name, esi = flags, both for the next dlopen.

    .intel_syntax noprefix
    .text

    .p2align 4
    .globl  dlopen
    .type   dlopen, @function
dlopen:
    .cfi_startproc
    mov     rax, [rip + freeway_next_dlopen]            // [A1] pairs with dlopen.cc:[R1]
    test    rax, rax
    je      2f
1:  and     esi, [rip + freeway_dlopen_flags]
    jmp     rax

2:  push    rdi
    .cfi_adjust_cfa_offset 8
    push    rsi
    .cfi_adjust_cfa_offset 8
    sub     rsp, 8
    .cfi_adjust_cfa_offset 8
    call    freeway_find_dlopen
    add     rsp, 8
    .cfi_adjust_cfa_offset -8
    pop     rsi
    .cfi_adjust_cfa_offset -8
    pop     rdi
    .cfi_adjust_cfa_offset -8
    jmp     1b
    .cfi_endproc
    .size   dlopen, . - dlopen

    .section .note.GNU-stack, "", @progbits
