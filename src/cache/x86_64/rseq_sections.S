// SPDX-License-Identifier: MIT
// rseq_sections.S: the restartable sections behind rseq_sections.h (x86-64).
//
// In all of them: arguments stay in their registers (a restart reads them again); r9 = slab, rax, r10, r11 are scratch.

#include "arch/x86_64/section.inc"
#include "cache/offsets.h"

    .intel_syntax noprefix
    .text

// rdi = table. [2] not registered -> no slab  [3] slab = table[id]; the null slab -> no slab
.macro SECTION_BEGIN name
    SECTION_ENTER \name
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0         // [2]
    js      .Lno_slab
    mov     r9, [rip + freeway_rseq + RSEQ_PLACE_ID]    // [3]
    mov     r9d, fs:[r9]
    mov     r9, [rdi + r9*8]
    cmp     r9, [rip + freeway_hot + HOT_NULL_SLAB]
    je      .Lno_slab
.endm

.Lno_slab:
    mov     rax, RSEQ_NO_SLAB
    ret

    // rsi = class
    SECTION_BEGIN pop
    mov     r11, [r9 + rsi*8]
    mov     rax, [r11 - 8]                              // [4] the top block; 0: empty
    test    rax, rax
    je      1f
    sub     qword ptr [r9 + rsi*8], 8                   // [5] commit
.Lpost_pop:
1:  ret
    SECTION_END pop

    // rsi = class, rdx = block
    SECTION_BEGIN push
    mov     r11, [r9 + rsi*8]
    xor     eax, eax
    cmp     qword ptr [r11], 0                          // [4] 0: full
    je      1f
    mov     [r11], rdx                                  // [5]
    add     qword ptr [r9 + rsi*8], 8                   // [6] commit
.Lpost_push:
    mov     eax, 1
1:  ret
    SECTION_END push

    // rsi = class, rdx = out, rcx = count
    SECTION_BEGIN pop_batch
    mov     r11, [r9 + rsi*8]
    xor     eax, eax
1:  cmp     rax, rcx                                    // [4] out[i] = top[-1 - i], until 0
    je      2f
    mov     r10, [r11 - 8]
    test    r10, r10
    je      2f
    mov     [rdx + rax*8], r10
    sub     r11, 8
    inc     rax
    jmp     1b
2:  mov     [r9 + rsi*8], r11                           // [5] commit
.Lpost_pop_batch:
    ret
    SECTION_END pop_batch

    // rsi = class, rdx = blocks, rcx = count
    SECTION_BEGIN push_batch
    mov     r11, [r9 + rsi*8]
    mov     rax, rcx
1:  test    rax, rax                                    // [4] top[i] = blocks[count - 1 - i], until 0
    je      2f
    cmp     qword ptr [r11], 0
    je      2f
    mov     r10, [rdx + rax*8 - 8]
    mov     [r11], r10
    add     r11, 8
    dec     rax
    jmp     1b
2:  mov     [r9 + rsi*8], r11                           // [5] commit
.Lpost_push_batch:
    neg     rax
    add     rax, rcx
    ret
    SECTION_END push_batch

    // rsi = class, rdx = lowest, rcx = size, r8 = count (at least 1)
    SECTION_BEGIN push_run
    mov     r11, [r9 + rsi*8]
    lea     rax, [r8 - 1]
    imul    rax, rcx
    add     rax, rdx                                    // the highest
    mov     r10, r8
1:  cmp     qword ptr [r11], 0                          // [4] top[i] = highest - i * size, until 0
    je      2f
    mov     [r11], rax
    add     r11, 8
    sub     rax, rcx
    dec     r10
    jne     1b
2:  mov     [r9 + rsi*8], r11                           // [5] commit
.Lpost_push_run:
    mov     rax, r8
    sub     rax, r10
    ret
    SECTION_END push_run

    // rsi = offset, rdx = value
    SECTION_BEGIN exchange
    mov     rax, [r9 + rsi]
    mov     [r9 + rsi], rdx                             // [4] commit
.Lpost_exchange:
    ret
    SECTION_END exchange

    // rsi = offset, rdx = expected, rcx = value
    SECTION_BEGIN replace
    mov     rax, [r9 + rsi]
    cmp     rax, rdx                                    // [4]
    jne     1f
    mov     [r9 + rsi], rcx                             // [5] commit
.Lpost_replace:
1:  ret
    SECTION_END replace

    // rsi = class, rdx = area, rcx = bytes, r8 = closed
    SECTION_BEGIN open
    xor     eax, eax
    cmp     [r9 + rsi*8], r8                            // [4] somebody opened it already
    jne     2f
    lea     r11, [r9 + rdx]
    lea     r10, [r11 + rcx]
    mov     rax, r11
1:  mov     qword ptr [rax], 1                          // [5] an unfilled slot is not 0
    add     rax, 8
    cmp     rax, r10
    jb      1b
    mov     [r9 + rsi*8], r11                           // [6] commit
.Lpost_open:
    mov     eax, 1
2:  ret
    SECTION_END open

    // rsi = class, rdx = {old area, old bytes, distance, new bytes}
    SECTION_BEGIN move
    mov     rax, [r9 + rsi*8]
    add     r9, [rdx]                                   //     the old area
    mov     r10, rax
    sub     r10, r9                                     // [4] bytes filled; more than old bytes: it lies elsewhere
    cmp     r10, [rdx + 8]
    ja      4f
    mov     rcx, [rdx + 16]
    mov     r11, r9
1:  cmp     r11, rax                                    // [5] copy the filled slots
    jae     2f
    mov     r10, [r11]
    mov     [r11 + rcx], r10
    add     r11, 8
    jmp     1b
2:  mov     r10, r9                                     // [6] 1 in every other slot
    add     r10, [rdx + 24]
3:  cmp     r11, r10
    jae     5f
    mov     qword ptr [r11 + rcx], 1
    add     r11, 8
    jmp     3b
5:  mov     qword ptr [r10 + rcx], 0                    // [7] the upper sentinel: a larger one may have been here
    add     rax, rcx
    sub     r9, [rdx]
    mov     [r9 + rsi*8], rax                           // [8] commit
.Lpost_move:
    mov     eax, 1
    ret
4:  xor     eax, eax
    ret
    SECTION_END move

    // rsi = where the capacity is, rdx = expected capacity, rcx = end, r8 = bytes
    SECTION_BEGIN grow
    xor     eax, eax
    cmp     [r9 + rsi], rdx                             // [4]
    jne     3f
    mov     eax, 2
    lea     r11, [r9 + rcx]
    cmp     qword ptr [r11], 0                          // [5] no sentinel here any more
    jne     3f
    lea     r10, [r11 + r8]
    mov     qword ptr [r10], 0                          // [6] the new sentinel
    lea     rax, [r11 + 8]
1:  cmp     rax, r10                                    // [7] 1 in every slot between
    jae     2f
    mov     qword ptr [rax], 1
    add     rax, 8
    jmp     1b
2:  mov     qword ptr [r11], 1                          // [8] commit
.Lpost_grow:
    mov     eax, 1
3:  ret
    SECTION_END grow

    // rsi = offset of a word, rdx = expected, rcx = what its neighbour (offset ^ 8) must be, r8 = value
    SECTION_BEGIN store_if
    lea     r11, [r9 + rsi]
    xor     eax, eax
    cmp     [r11], rdx                                  // [4] both words are as expected
    jne     1f
    mov     r10, r11
    xor     r10, 8
    cmp     [r10], rcx
    jne     1f
    mov     [r11], r8                                   // [5] commit
.Lpost_store_if:
    mov     eax, 1
1:  ret
    SECTION_END store_if

    .section .note.GNU-stack, "", @progbits
