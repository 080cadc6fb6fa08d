// SPDX-License-Identifier: MIT
// vfork.S: vfork, for a process whose threads use restartable sections (aarch64). Explained in x86_64/vfork.S.
//
// vfork is clone(CLONE_VM | CLONE_VFORK | SIGCHLD) on the same stack, fork is clone(SIGCHLD). The kernel keeps every
// register but x0. Parent and child share memory, not registers: each returns by a x30 of its own, which is never on
// the stack here, so whatever the child does to the stack frames that they share, the parent finds its way back.
//
// x9 = freeway_rseq, x10 = struct rseq, x11 = the child's pid, x12 = the flags to register with

#include "arch/offsets.h"
#include "arch/aarch64/section.inc"

    .text

#define SYS_clone 220
#define SYS_rseq 293
#define SIGCHLD 17
#define CLONE_VM 0x100
#define CLONE_VFORK 0x4000

.macro RSEQ_CALL flags
    mov     x0, x10
    ldr     x1, [x9, #RSEQ_PLACE_BYTES]
    mov     x2, \flags
    mov     w3, #(RSEQ_SIGNATURE & 0xffff)
    movk    w3, #(RSEQ_SIGNATURE >> 16), lsl #16
    mov     x8, #SYS_rseq
    svc     #0
.endm

.macro CLONE_CALL flags
    mov     x0, \flags
    mov     x1, #0                                      // the stack pointer as it is
    mov     x2, #0
    mov     x3, #0
    mov     x4, #0
    mov     x8, #SYS_clone
    svc     #0
.endm

    .p2align 4
    .globl  freeway_vfork
    .hidden freeway_vfork
    .type   freeway_vfork, %function
#ifndef FREEWAY_PREFIXED
    .globl  vfork
    .type   vfork, %function
vfork:
#endif
freeway_vfork:
    .cfi_startproc
    LANDING_PAD
    adrp    x9, freeway_rseq
    add     x9, x9, :lo12:freeway_rseq
    ldr     x10, [x9, #RSEQ_PLACE_AREA]
    cbz     x10, .Lunregistered                         // before initialisation
    mrs     x11, tpidr_el0
    add     x10, x10, x11
    ldr     w11, [x10, #RSEQ_CPU_ID]
    tbnz    w11, #31, .Lunregistered
    ldr     w12, [x10, #RSEQ_FLAGS]
    lsr     w12, w12, #4                                // bit 5 -> RSEQ_SLICE_EXTENSION
    and     x12, x12, #RSEQ_SLICE_EXTENSION
    RSEQ_CALL #RSEQ_UNREGISTER
    cbnz    w0, .Lcopy
    CLONE_CALL #(CLONE_VM | CLONE_VFORK | SIGCHLD)
    cbz     x0, .Lchild
    mov     x11, x0
    RSEQ_CALL x12                                       // refused: this thread goes on without a slab
    mov     x0, x11
.Lparent:
    tbnz    x0, #63, .Lfailed
.Lchild:
    ret

.Lcopy:
    CLONE_CALL #SIGCHLD
    b       .Lparent

    // The child must not be the first to initialise, nor to register: it would do so for itself, in our struct.
.Lunregistered:
    stp     x29, x30, [sp, #-16]!
    .cfi_adjust_cfa_offset 16
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    bl      freeway_before_vfork
    ldp     x29, x30, [sp], #16
    .cfi_adjust_cfa_offset -16
    .cfi_restore x29
    .cfi_restore x30
    tbnz    w0, #0, freeway_vfork                       // it is now
    // The child is as slow as we are.
    CLONE_CALL #(CLONE_VM | CLONE_VFORK | SIGCHLD)
    b       .Lparent

.Lfailed:
    b       freeway_vfork_failed                        // sets errno, returns -1
    .cfi_endproc
    .size   freeway_vfork, . - freeway_vfork
#ifndef FREEWAY_PREFIXED
    .size   vfork, . - vfork
#endif

    END_OF_FILE
