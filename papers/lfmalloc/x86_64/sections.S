// SPDX-License-Identifier: MIT
// sections.S: the sections behind sections.h and transaction.h (x86-64).
//
// In all of them: arguments stay in their registers (a restart reads them again); r9 = local heap, rax, rcx, r8, r10,
// r11 are scratch. No atomic instruction but the one that counts restarts.

#include "arch/x86_64/section.inc"
#include "papers/lfmalloc/layout.h"

    .intel_syntax noprefix
    .text

// [1] rseq_cs = this section  [2] not registered -> say so  [3] heap = heaps[cpu]; null -> say so
.macro BEGIN name
    SECTION_DESCRIPTOR lfmalloc_\name
    .p2align 4
    .globl  freeway_lfmalloc_\name
    .hidden freeway_lfmalloc_\name
    .type   freeway_lfmalloc_\name, @function
freeway_lfmalloc_\name:
    .cfi_startproc
    mov     r10, [rip + freeway_rseq + RSEQ_PLACE_AREA]
    lea     r11, [rip + freeway_section_lfmalloc_\name]
    mov     fs:[r10 + RSEQ_SECTION], r11                // [1]
.Lstart_lfmalloc_\name:
    mov     eax, fs:[r10 + RSEQ_CPU_ID]                 // [2]
    test    eax, eax
    js      .Lnot_registered
    lea     r9, [rip + freeway_lfmalloc_heaps]
    mov     r9, [r9 + rax*8]                            // [3]
    test    r9, r9
    je      .Lno_heap
.endm

.macro END name
    SECTION_ABORT lfmalloc_\name, .Lagain_\name
.Lagain_\name:
    lock inc qword ptr [rip + freeway_lfmalloc_restarts]
    jmp     freeway_lfmalloc_\name
    .cfi_endproc
    .size   freeway_lfmalloc_\name, . - freeway_lfmalloc_\name
.endm

.Lnot_registered:
    mov     rax, LFMALLOC_NOT_REGISTERED
    ret
.Lno_heap:
    mov     rax, LFMALLOC_NO_HEAP
    ret

    // malloc [5]-[9]. rdi = class; rax = block, rdx = superblock
    BEGIN pop
    xor     eax, eax
    mov     rdx, [r9 + rdi*8]                           // [4] S = H[i]; null: none on line
    test    rdx, rdx
    je      1f
    mov     r8, [rdx + LFMALLOC_LOCAL]                  // [5] list = S.local; no head: empty
    mov     ecx, r8d
    and     ecx, LFMALLOC_HEAD_MASK
    je      1f
    mov     eax, ecx
    shl     eax, 4
    add     rax, [rdx + LFMALLOC_BASE]                  // [6] the block
    sub     r8, rcx
    add     r8, [rax]                                   // [7] the list below it
    sub     r8, LFMALLOC_ONE_BLOCK
    mov     [rdx + LFMALLOC_LOCAL], r8                  // [8] commit
.Lpost_lfmalloc_pop:
1:  ret
    END pop

    // free [4]-[7]. rdi = class, rsi = superblock, rdx = block
    BEGIN push
    xor     eax, eax
    cmp     [r9 + rdi*8], rsi                           // [4] on line here: local
    jne     1f
    mov     r8, [rsi + LFMALLOC_LOCAL]                  // [5] list = S.local
    mov     ecx, r8d
    and     ecx, LFMALLOC_HEAD_MASK
    mov     [rdx], rcx                                  // [6] the block's link
    sub     r8, rcx
    mov     ecx, edx
    shr     ecx, 4
    and     ecx, LFMALLOC_HEAD_MASK
    lea     r8, [r8 + rcx + LFMALLOC_ONE_BLOCK]         // [7] the block on top
    mov     [rsi + LFMALLOC_LOCAL], r8                  // [8] commit
.Lpost_lfmalloc_push:
    mov     eax, 1
1:  ret
    END push

    // malloc [25]. rdi = class, rsi = expected, rdx = fresh
    BEGIN install
    mov     rax, [r9 + rdi*8]
    cmp     rax, rsi                                    // [4]
    jne     1f
    mov     [r9 + rdi*8], rdx                           // [5] commit
.Lpost_lfmalloc_install:
1:  ret
    END install

// The transactional layer. One descriptor for load and store, whose code lies side by side: whatever interrupts one of
// them sends it to .Labort_transaction, whatever interrupts the thread elsewhere makes the kernel clear rseq_cs.
    SECTION_DESCRIPTOR lfmalloc_transaction
.macro FUNCTION name
    .globl  freeway_lfmalloc_\name
    .hidden freeway_lfmalloc_\name
    .type   freeway_lfmalloc_\name, @function
freeway_lfmalloc_\name:
.endm

    // [1] rseq_cs = the transaction  [2] the CPU's number, negative: not registered
    .p2align 4
    FUNCTION start
    .cfi_startproc
    mov     r10, [rip + freeway_rseq + RSEQ_PLACE_AREA]
    lea     r11, [rip + freeway_section_lfmalloc_transaction]
    mov     fs:[r10 + RSEQ_SECTION], r11                // [1]
    movsxd  rax, dword ptr fs:[r10 + RSEQ_CPU_ID]       // [2]
    ret
    .cfi_endproc
    .size   freeway_lfmalloc_start, . - freeway_lfmalloc_start

    // [1] rseq_cs = 0
    FUNCTION abandon
    .cfi_startproc
    mov     r10, [rip + freeway_rseq + RSEQ_PLACE_AREA]
    mov     qword ptr fs:[r10 + RSEQ_SECTION], 0        // [1]
    ret
    .cfi_endproc
    .size   freeway_lfmalloc_abandon, . - freeway_lfmalloc_abandon

    // rdi = address, rsi = where the value goes; rax = 1: done
    // [1] rseq_cs is not the transaction: interference  [2] load
    FUNCTION conditional_load
    .cfi_startproc
    mov     r10, [rip + freeway_rseq + RSEQ_PLACE_AREA]
    lea     r11, [rip + freeway_section_lfmalloc_transaction]
.Lstart_lfmalloc_transaction:
    xor     eax, eax
    cmp     fs:[r10 + RSEQ_SECTION], r11                // [1]
    jne     1f
    mov     rcx, [rdi]                                  // [2]
    mov     [rsi], rcx
    mov     eax, 1
1:  ret
    .cfi_endproc
    .size   freeway_lfmalloc_conditional_load, . - freeway_lfmalloc_conditional_load

    // rdi = address, rsi = value; rax = 1: done
    // [1] rseq_cs is not the transaction: interference  [2] store, commit  [3] rseq_cs = 0: it is over
    FUNCTION conditional_store
    .cfi_startproc
    mov     r10, [rip + freeway_rseq + RSEQ_PLACE_AREA]
    lea     r11, [rip + freeway_section_lfmalloc_transaction]
    xor     eax, eax
    cmp     fs:[r10 + RSEQ_SECTION], r11                // [1]
    jne     1f
    mov     [rdi], rsi                                  // [2]
.Lpost_lfmalloc_transaction:
    mov     qword ptr fs:[r10 + RSEQ_SECTION], 0        // [3]
    mov     eax, 1
1:  ret
    SECTION_ABORT lfmalloc_transaction, .Linterfered
.Linterfered:
    lock inc qword ptr [rip + freeway_lfmalloc_restarts]
    xor     eax, eax
    ret
    .cfi_endproc
    .size   freeway_lfmalloc_conditional_store, . - freeway_lfmalloc_conditional_store

    .section .note.GNU-stack, "", @progbits
