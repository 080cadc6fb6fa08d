// SPDX-License-Identifier: MIT
// fast_path.S: malloc and free, from entry to return (x86-64).
//
// One magazine per CPU and size class; `top` points past its uppermost block. Below the first slot and past the last one
// stands 0, so an empty magazine reads 0 below top and a full one reads 0 at top: no limit is loaded. A CPU without a
// slab finds the null slab, empty and full at once. Class 0 (large, foreign, NULL) is such a class in every slab.
//
//   malloc(n)                                            free(p)
//   [1] class = byte_table[n]        (else step table)   [1] class = frame_class[(p - arena) >> 16]  (else slow)
//   [2] rseq_cs = this section                           [2] rseq_cs = this section
//   [3] not registered -> by cpu_id, or slow             [3] not registered -> by cpu_id, or slow
//   [4] slab = slab_of[mm_cid]                           [4] slab = slab_of[mm_cid]
//   [5] p = slab.top[class][-1]; 0 -> slow               [5] *slab.top[class] == 0 -> slow
//   [6] slab.top[class] -= 8         (commit)            [6] *slab.top[class] = p
//                                                        [7] slab.top[class] += 8    (commit)
//
// Before initialisation, and where nothing may be cached (FREEWAY_HARDEN), the limits are 0 and everything is slow.
// Step [3] costs two instructions and catches threads that libc could not register (a seccomp filter that came later)
// and children of vfork; mm_cid alone would read 0 there, which is somebody's slab.
// Counted by tests/golden: 16 instructions malloc, 19 free. Checked by tests/rseq.

#include "arch/slab_layout.h"
#include "section.inc"

    .intel_syntax noprefix
    .text

    // A program linked with the static library may name malloc and free alone: libc's own calls of calloc and realloc must
    // not bring in libc's malloc beside ours, so whoever takes this file takes abi/malloc.cc.
    .reloc  0, R_X86_64_NONE, freeway_calloc

    SECTION_DESCRIPTOR malloc
    SECTION_DESCRIPTOR malloc_by_cpu
    SECTION_DESCRIPTOR free
    SECTION_DESCRIPTOR free_by_cpu

    .p2align 6
    .globl  freeway_malloc
    .type   freeway_malloc, @function
#ifndef FREEWAY_PREFIXED
    .globl  malloc
    .type   malloc, @function
malloc:
#endif
freeway_malloc:
    .cfi_startproc
    lea     r8, [rip + freeway_hot]
    cmp     rdi, [r8 + HOT_BYTE_LIMIT]
    jae     .Lmedium
    movzx   ecx, byte ptr [r8 + rdi + HOT_BYTE_TABLE]   // [1]
.Lmalloc_class:
    mov     rdx, [r8 + HOT_RSEQ]
    mov     fs:[rdx + RSEQ_SECTION], r8                 // [2]
.Lstart_malloc:
    cmp     dword ptr fs:[rdx + RSEQ_CPU_ID], 0         // [3]
    js      .Lmalloc_by_cpu
    mov     eax, fs:[rdx + RSEQ_MM_CID]                 // [4]
    mov     rsi, [r8 + rax*8 + HOT_SLAB_OF]
    mov     rdx, [rsi + rcx*8]                          // [5]
    mov     rax, [rdx - 8]
    test    rax, rax
    je      freeway_malloc_slow
    sub     qword ptr [rsi + rcx*8], 8                  // [6]
.Lpost_malloc:
    ret

.Lmedium:
    cmp     rdi, [r8 + HOT_STEP_LIMIT]
    jae     freeway_malloc_slow
    lea     rcx, [rdi + 127]
    shr     rcx, 7
    movzx   ecx, byte ptr [r8 + rcx + HOT_STEP_TABLE]
    jmp     .Lmalloc_class

    // The same by cpu_id: kernels without mm_cid (before Linux 6.3). The class is in ecx.
.Lmalloc_by_cpu:
    mov     rdx, [r8 + HOT_CPU_RSEQ]
    lea     rax, [rip + freeway_section_malloc_by_cpu]
    mov     fs:[rdx + RSEQ_SECTION], rax
.Lstart_malloc_by_cpu:
    mov     eax, fs:[rdx + RSEQ_CPU_ID]
    test    eax, eax
    js      freeway_malloc_slow
    mov     rsi, [r8 + rax*8 + HOT_SLAB_OF]
    mov     rdx, [rsi + rcx*8]
    mov     rax, [rdx - 8]
    test    rax, rax
    je      freeway_malloc_slow
    sub     qword ptr [rsi + rcx*8], 8
.Lpost_malloc_by_cpu:
    ret
    SECTION_ABORT malloc, .Lmalloc_class
    SECTION_ABORT malloc_by_cpu, .Lmalloc_by_cpu
    .cfi_endproc
    .size   freeway_malloc, . - freeway_malloc
#ifndef FREEWAY_PREFIXED
    .size   malloc, . - malloc
#endif

    .p2align 6
    .globl  freeway_free
    .type   freeway_free, @function
#ifndef FREEWAY_PREFIXED
    .globl  free
    .type   free, @function
free:
#endif
freeway_free:
    .cfi_startproc
    lea     r8, [rip + freeway_hot + HOT_FREE_SECTION]
    mov     rax, rdi
    sub     rax, [r8 + HOT_ARENA - HOT_FREE_SECTION]
    shr     rax, 16
    cmp     rax, [r8 + HOT_FRAMES - HOT_FREE_SECTION]
    jae     freeway_free_slow
    movzx   ecx, byte ptr [r8 + rax + HOT_FRAME_CLASS - HOT_FREE_SECTION]   // [1]
.Lfree_class:
    mov     rdx, [r8 + HOT_RSEQ - HOT_FREE_SECTION]
    mov     fs:[rdx + RSEQ_SECTION], r8                 // [2]
.Lstart_free:
    cmp     dword ptr fs:[rdx + RSEQ_CPU_ID], 0         // [3]
    js      .Lfree_by_cpu
    mov     eax, fs:[rdx + RSEQ_MM_CID]                 // [4]
    mov     rsi, [r8 + rax*8 + HOT_SLAB_OF - HOT_FREE_SECTION]
    mov     rax, [rsi + rcx*8]                          // [5]
    cmp     qword ptr [rax], 0
    je      freeway_free_slow
    mov     [rax], rdi                                  // [6]
    add     qword ptr [rsi + rcx*8], 8                  // [7]
.Lpost_free:
    ret

.Lfree_by_cpu:
    mov     rdx, [r8 + HOT_CPU_RSEQ - HOT_FREE_SECTION]
    lea     rax, [rip + freeway_section_free_by_cpu]
    mov     fs:[rdx + RSEQ_SECTION], rax
.Lstart_free_by_cpu:
    mov     eax, fs:[rdx + RSEQ_CPU_ID]
    test    eax, eax
    js      freeway_free_slow
    mov     rsi, [r8 + rax*8 + HOT_SLAB_OF - HOT_FREE_SECTION]
    mov     rax, [rsi + rcx*8]
    cmp     qword ptr [rax], 0
    je      freeway_free_slow
    mov     [rax], rdi
    add     qword ptr [rsi + rcx*8], 8
.Lpost_free_by_cpu:
    ret
    SECTION_ABORT free, .Lfree_class
    SECTION_ABORT free_by_cpu, .Lfree_by_cpu
    .cfi_endproc
    .size   freeway_free, . - freeway_free
#ifndef FREEWAY_PREFIXED
    .size   free, . - free
#endif

    .section .note.GNU-stack, "", @progbits
