// SPDX-License-Identifier: MIT
// bare_clone.S: a thread that the C library does not know of (x86-64); see background/bare_thread.h.
//
// freeway_bare_clone(flags, stack, word, thread_pointer, f): makes a thread that calls f and ends with the status that
// f returns. The kernel writes the thread's id to `word`, and clears `word` at the thread's end. Returns the kernel's
// answer. The call keeps all registers but rax, rcx and r11, in the new thread too: it finds f in r9.

    .intel_syntax noprefix
    .text

#define SYS_clone 56
#define SYS_exit 60

    .p2align 4
    .globl  freeway_bare_clone
    .hidden freeway_bare_clone
    .type   freeway_bare_clone, @function
freeway_bare_clone:
    .cfi_startproc
    mov     r9, r8
    mov     r8, rcx                                     // thread pointer
    mov     r10, rdx                                    // cleared at the end
    mov     eax, SYS_clone
    syscall
    test    eax, eax
    je      1f
    ret
    .cfi_undefined rip                                  // no caller from here on
1:  xor     ebp, ebp
    call    r9
    mov     edi, eax
    mov     eax, SYS_exit
    syscall
    hlt
    .cfi_endproc
    .size   freeway_bare_clone, . - freeway_bare_clone

    .section .note.GNU-stack, "", @progbits
