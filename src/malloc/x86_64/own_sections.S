// SPDX-License-Identifier: MIT
// own_sections.S: the sections behind own_sections.h (x86-64).
//
// In all of them: arguments stay in their registers (a restart reads them again); r9 = slab, rax, rcx, r8, r10, r11 are
// scratch.

#include "arch/x86_64/section.inc"
#include "cache/offsets.h"
#include "malloc/offsets.h"

    .intel_syntax noprefix
    .text

// `heap`: a heap's address. [1] rseq_cs  [2] not registered -> `none`  [3] r9 = its slab, or the null slab, whose
// magazines are empty, and full
.macro SECTION_BEGIN_OWN name, heap, none
    SECTION_ENTER \name
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0         // [2]
    js      \none
    mov     r9, [rip + freeway_rseq + RSEQ_PLACE_ID]    // [3]
    mov     r9d, fs:[r9]
    cmp     r9d, [\heap + OWN_IDS]
    jae     \none
    mov     r9, [\heap + r9*8 + OWN_SLAB_OF]
.endm

// rdi = heap, rsi = bytes, rdx = class. A block of it, or what is done at `none`.
.macro GIVE_OWN name, none
    SECTION_BEGIN_OWN \name, rdi, \none
    lea     r10, [r9 + rdx*8]                           // [4] the magazine's top block: top = top - 8
    mov     r11, [r10]
    sub     r11, 8
    mov     rax, [r11]
    test    rax, rax
    jne     2f
    cmp     r9, [rip + freeway_hot + HOT_NULL_SLAB]
    je      \none
    mov     r8, [r9 + OWN_STRIP_BASE]                   // [5] none: the strip's next block, next moved behind it
    test    r8, r8
    je      \none
    lea     r10, [rip + freeway_strip_sizes]
    mov     r11d, [r10 + rdx*4]
    lea     r10, [r9 + OWN_STRIP_NEXT]
    mov     rax, [r10]
    add     r11, rax
    cmp     r11, [r8 + OWN_STRIP_END]
    ja      \none
    mov     rcx, rax
    shr     rcx, 4
    add     rcx, [r8 + OWN_STRIP_KINDS]
    mov     [rcx], dl
2:  mov     [r10], r11                                  // [6] commit
.Lpost_\name:
    ret
    SECTION_END \name
.endm

    GIVE_OWN give_own, .Lnothing
    GIVE_OWN malloc_own, freeway_malloc_own_slow
.Lnothing:
    xor     eax, eax
    ret

    // rdi = block, rsi = class, rdx = heap
    SECTION_BEGIN_OWN free_own, rdx, freeway_free_otherwise
    mov     r11, [r9 + rsi*8]
    cmp     [r11 - 8], rdi                              // [4] it lies on top
    je      freeway_free_otherwise
    cmp     qword ptr [r11], 0                          // [5] 0: full
    je      freeway_free_otherwise
    mov     [r11], rdi                                  // [6]
    add     qword ptr [r9 + rsi*8], 8                   // [7] commit
.Lpost_free_own:
    ret
    SECTION_END free_own

    .section .note.GNU-stack, "", @progbits
