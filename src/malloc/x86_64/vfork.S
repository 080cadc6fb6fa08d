// SPDX-License-Identifier: MIT
// vfork.S: vfork, for a process whose threads use restartable sections (x86-64).
//
// The child of vfork runs on its parent's memory, thread-local storage included, without being registered for rseq: it
// would read the CPU index of its sleeping parent and enter another CPU's slab. So the parent unregisters first (the
// kernel then writes cpu_id = -1, which sends the child to the slow path), and registers again when it goes on, with
// the extension of time slices if the thread had it. Where unregistering is refused the child gets a copy of the memory
// instead (fork).
//
// r8 = struct rseq - thread pointer, then the flags to register with; r9 = return address, then the child's pid. The
// kernel keeps all registers but rax, rcx and r11: the second call of rseq has the arguments of the first.

#include "arch/offsets.h"
#include "arch/rseq_layout.h"

    .intel_syntax noprefix
    .text

#define SYS_rseq 334
#define SYS_vfork 58
#define SYS_fork 57

.macro RSEQ_CALL flags
    mov     edx, \flags
    mov     eax, SYS_rseq
    syscall
.endm

// The return address leaves the stack meanwhile: the child returns first, and may write over it.
.macro VFORK_CALL
    pop     r9
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, r9
    mov     eax, SYS_vfork
    syscall
    push    r9
    .cfi_adjust_cfa_offset 8
    .cfi_offset rip, -8
.endm

    .p2align 4
    .globl  freeway_vfork
    .hidden freeway_vfork
    .type   freeway_vfork, @function
#ifndef FREEWAY_PREFIXED
    .globl  vfork
    .type   vfork, @function
vfork:
#endif
freeway_vfork:
    .cfi_startproc
    mov     r8, [rip + freeway_rseq + RSEQ_PLACE_AREA]
    test    r8, r8
    je      .Lunregistered                              // before initialisation
    cmp     dword ptr fs:[r8 + RSEQ_CPU_ID], 0
    js      .Lunregistered
    mov     rdi, fs:[0]
    add     rdi, r8
    mov     rsi, [rip + freeway_rseq + RSEQ_PLACE_BYTES]
    mov     r10d, RSEQ_SIGNATURE
    mov     r8d, [rdi + RSEQ_FLAGS]
    shr     r8d, 4                                      // bit 5 -> RSEQ_SLICE_EXTENSION
    and     r8d, RSEQ_SLICE_EXTENSION
    RSEQ_CALL RSEQ_UNREGISTER
    test    eax, eax
    jne     .Lcopy
    VFORK_CALL
    test    eax, eax
    je      .Lchild
    mov     r9, rax
    RSEQ_CALL r8d                                       // refused: this thread goes on without a slab
    mov     rax, r9
.Lparent:
    test    rax, rax
    js      .Lfailed
.Lchild:
    ret

.Lcopy:
    mov     eax, SYS_fork
    syscall
    jmp     .Lparent

    // The child must not be the first to initialise, nor to register: it would do so for itself, in our struct.
.Lunregistered:
    sub     rsp, 8
    .cfi_adjust_cfa_offset 8
    call    freeway_before_vfork
    add     rsp, 8
    .cfi_adjust_cfa_offset -8
    test    al, al
    jne     freeway_vfork                               // it is now
    VFORK_CALL                                          // the child is as slow as we are
    jmp     .Lparent

.Lfailed:
    mov     rdi, rax
    jmp     freeway_vfork_failed                        // sets errno, returns -1
    .cfi_endproc
    .size   freeway_vfork, . - freeway_vfork
#ifndef FREEWAY_PREFIXED
    .size   vfork, . - vfork
#endif

    .section .note.GNU-stack, "", @progbits
