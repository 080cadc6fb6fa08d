// SPDX-License-Identifier: MIT
// bare_clone.S: a thread that the C library does not know of (aarch64); see background/bare_thread.h.
//
// freeway_bare_clone(flags, stack, word, thread_pointer, f): makes a thread that calls f and ends with the status that
// f returns. The kernel writes the thread's id to `word`, and clears `word` at the thread's end. Returns the kernel's
// answer. The call keeps all registers but x0, in the new thread too: it finds f in x9.

    .text

#define SYS_clone 220
#define SYS_exit 93

    .p2align 4
    .globl  freeway_bare_clone
    .hidden freeway_bare_clone
    .type   freeway_bare_clone, %function
freeway_bare_clone:
    .cfi_startproc
    mov     x9, x4
    mov     x4, x2                                      // cleared at the end
    mov     x8, #SYS_clone
    svc     #0
    cbz     x0, 1f
    ret
    .cfi_undefined x30                                  // no caller from here on
1:  mov     x29, #0
    mov     x30, #0
    blr     x9
    mov     x8, #SYS_exit
    svc     #0
    brk     #1
    .cfi_endproc
    .size   freeway_bare_clone, . - freeway_bare_clone

    .section .note.GNU-stack, "", %progbits
