// SPDX-License-Identifier: MIT
// rseq_sections.S: the restartable sections behind rseq.h (x86-64).
//
// In all of them: arguments stay in their registers (a restart reads them again); r9 = slab, rax, r10, r11 are scratch.

#include "arch/offsets.h"
#include "section.inc"

    .intel_syntax noprefix
    .text

// [1] rseq_cs = this section. r10 = struct rseq, from the thread pointer
.macro SECTION_ENTER name
    SECTION_DESCRIPTOR \name
    .p2align 4
    .globl  freeway_rseq_\name
    .hidden freeway_rseq_\name
    .type   freeway_rseq_\name, @function
freeway_rseq_\name:
    .cfi_startproc
    mov     r10, [rip + freeway_hot + HOT_ANY_RSEQ]
    lea     r11, [rip + freeway_section_\name]
    mov     fs:[r10 + RSEQ_SECTION], r11                // [1]
.Lstart_\name:
.endm

// [2] not registered -> no slab  [3] slab = slab_of[id]; the null slab -> no slab
.macro SECTION_BEGIN name
    SECTION_ENTER \name
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0         // [2]
    js      .Lno_slab
    mov     r9, [rip + freeway_hot + HOT_ANY_ID]        // [3]
    mov     r9d, fs:[r9]
    lea     rax, [rip + freeway_hot]
    mov     r9, [rax + r9*8 + HOT_SLAB_OF]
    cmp     r9, [rax + HOT_NULL_SLAB]
    je      .Lno_slab
.endm

.macro SECTION_END name
    SECTION_ABORT \name, freeway_rseq_\name
    .cfi_endproc
    .size   freeway_rseq_\name, . - freeway_rseq_\name
.endm

.Lno_slab:
    mov     rax, RSEQ_NO_SLAB
    ret

    // rdi = class
    SECTION_BEGIN pop
    mov     r11, [r9 + rdi*8]
    mov     rax, [r11 - 8]                              // [4] the top block; 0: empty
    test    rax, rax
    je      1f
    sub     qword ptr [r9 + rdi*8], 8                   // [5] commit
.Lpost_pop:
1:  ret
    SECTION_END pop

    // rdi = class, rsi = block
    SECTION_BEGIN push
    mov     r11, [r9 + rdi*8]
    xor     eax, eax
    cmp     qword ptr [r11], 0                          // [4] 0: full
    je      1f
    mov     [r11], rsi                                  // [5]
    add     qword ptr [r9 + rdi*8], 8                   // [6] commit
.Lpost_push:
    mov     eax, 1
1:  ret
    SECTION_END push

    // rdi = class, rsi = out, rdx = count
    SECTION_BEGIN pop_batch
    mov     r11, [r9 + rdi*8]
    xor     eax, eax
1:  cmp     rax, rdx                                    // [4] out[i] = top[-1 - i], until 0
    je      2f
    mov     r10, [r11 - 8]
    test    r10, r10
    je      2f
    mov     [rsi + rax*8], r10
    sub     r11, 8
    inc     rax
    jmp     1b
2:  mov     [r9 + rdi*8], r11                           // [5] commit
.Lpost_pop_batch:
    ret
    SECTION_END pop_batch

    // rdi = class, rsi = blocks, rdx = count
    SECTION_BEGIN push_batch
    mov     r11, [r9 + rdi*8]
    mov     rax, rdx
1:  test    rax, rax                                    // [4] top[i] = blocks[count - 1 - i], until 0
    je      2f
    cmp     qword ptr [r11], 0
    je      2f
    mov     r10, [rsi + rax*8 - 8]
    mov     [r11], r10
    add     r11, 8
    dec     rax
    jmp     1b
2:  mov     [r9 + rdi*8], r11                           // [5] commit
.Lpost_push_batch:
    neg     rax
    add     rax, rdx
    ret
    SECTION_END push_batch

    // rdi = class, rsi = lowest, rdx = size, rcx = count (at least 1)
    SECTION_BEGIN push_run
    mov     r11, [r9 + rdi*8]
    lea     rax, [rcx - 1]
    imul    rax, rdx
    add     rax, rsi                                    // the highest
    mov     r10, rcx
1:  cmp     qword ptr [r11], 0                          // [4] top[i] = highest - i * size, until 0
    je      2f
    mov     [r11], rax
    add     r11, 8
    sub     rax, rdx
    dec     r10
    jne     1b
2:  mov     [r9 + rdi*8], r11                           // [5] commit
.Lpost_push_run:
    mov     rax, rcx
    sub     rax, r10
    ret
    SECTION_END push_run

    // rdi = offset, rsi = value
    SECTION_BEGIN exchange
    mov     rax, [r9 + rdi]
    mov     [r9 + rdi], rsi                             // [4] commit
.Lpost_exchange:
    ret
    SECTION_END exchange

    // rdi = offset, rsi = expected, rdx = value
    SECTION_BEGIN replace
    mov     rax, [r9 + rdi]
    cmp     rax, rsi                                    // [4]
    jne     1f
    mov     [r9 + rdi], rdx                             // [5] commit
.Lpost_replace:
1:  ret
    SECTION_END replace

    // rdi = class, rsi = area, rdx = bytes, rcx = closed
    SECTION_BEGIN open
    xor     eax, eax
    cmp     [r9 + rdi*8], rcx                           // [4] somebody opened it already
    jne     2f
    lea     r11, [r9 + rsi]
    lea     r10, [r11 + rdx]
    mov     rax, r11
1:  mov     qword ptr [rax], 1                          // [5] an unfilled slot is not 0
    add     rax, 8
    cmp     rax, r10
    jb      1b
    mov     [r9 + rdi*8], r11                           // [6] commit
.Lpost_open:
    mov     eax, 1
2:  ret
    SECTION_END open

    // rdi = class, rsi = old area, rdx = old bytes, rcx = distance, r8 = new bytes
    SECTION_BEGIN move
    mov     rax, [r9 + rdi*8]
    lea     r11, [r9 + rsi]
    mov     r10, rax
    sub     r10, r11                                    // [4] bytes filled; more than old bytes: it lies elsewhere
    cmp     r10, rdx
    ja      4f
1:  cmp     r11, rax                                    // [5] copy what is filled
    jae     2f
    mov     r10, [r11]
    mov     [r11 + rcx], r10
    add     r11, 8
    jmp     1b
2:  lea     r10, [r9 + rsi]                             // [6] 1 in every other slot
    add     r10, r8
3:  cmp     r11, r10
    jae     5f
    mov     qword ptr [r11 + rcx], 1
    add     r11, 8
    jmp     3b
5:  mov     qword ptr [r10 + rcx], 0                    // [7] the upper sentinel: a larger one may have been here
    add     rax, rcx
    mov     [r9 + rdi*8], rax                           // [8] commit
.Lpost_move:
    mov     eax, 1
    ret
4:  xor     eax, eax
    ret
    SECTION_END move

    // rdi = where the capacity is, rsi = expected capacity, rdx = end, rcx = bytes
    SECTION_BEGIN grow
    xor     eax, eax
    cmp     [r9 + rdi], rsi                             // [4]
    jne     3f
    mov     eax, 2
    lea     r11, [r9 + rdx]
    cmp     qword ptr [r11], 0                          // [5] no sentinel here any more
    jne     3f
    lea     r10, [r11 + rcx]
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

    // Not on a slab: see alone.h. rdi = word, rsi = mask; rax = what the word was, rdx = whether it was done.
    // [1] rseq_cs  [2] not registered, or not alone -> not done  [3] old  [4] new  [5] commit
.macro ALONE name, operation
    SECTION_DESCRIPTOR \name
    .p2align 4
    .globl  freeway_alone_\name
    .hidden freeway_alone_\name
    .type   freeway_alone_\name, @function
freeway_alone_\name:
    .cfi_startproc
    mov     r10, [rip + freeway_hot + HOT_ANY_RSEQ]
    lea     r11, [rip + freeway_section_\name]
    mov     fs:[r10 + RSEQ_SECTION], r11                // [1]
.Lstart_\name:
    mov     r9, [rip + freeway_hot + HOT_ALONE]
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0         // [2]
    js      1f
    cmp     byte ptr [r9], 0
    je      1f
    mov     rax, [rdi]                                  // [3]
    mov     r11, rsi
    \operation                                         // [4]
    mov     [rdi], r11                                  // [5] commit
.Lpost_\name:
    mov     edx, 1
    ret
1:  xor     edx, edx
    ret
    SECTION_ABORT \name, freeway_alone_\name
    .cfi_endproc
    .size   freeway_alone_\name, . - freeway_alone_\name
.endm

.macro AND_NOT_OLD
    not     r11
    and     r11, rax
.endm
    ALONE clear_bits, AND_NOT_OLD

    // Not on a slab either, and a loop of sections: see alone.h. rdi = first change {word, mask}, rsi = their end; rax =
    // where it stopped (| 1: that one was not done), rdx = what the last word was. Between the commit and the next rseq_cs
    // nothing can go wrong: rdi still names a change that is done, and no section is being restarted.
    // [1] rseq_cs  [2] not registered, or not alone -> not done  [3] old  [4] new  [5] commit  [6] stop or go on
    SECTION_DESCRIPTOR set_each
    .p2align 4
    .globl  freeway_alone_set_each
    .hidden freeway_alone_set_each
    .type   freeway_alone_set_each, @function
freeway_alone_set_each:
    .cfi_startproc
    mov     r10, [rip + freeway_hot + HOT_ANY_RSEQ]
    lea     r11, [rip + freeway_section_set_each]
    .p2align 4
.Lnext_set_each:
    mov     fs:[r10 + RSEQ_SECTION], r11                // [1]
.Lstart_set_each:
    mov     r9, [rip + freeway_hot + HOT_ALONE]         //     idle.cc moves it, and interrupts sections
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0         // [2]
    js      2f
    cmp     byte ptr [r9], 0
    je      2f
    mov     rcx, [rdi]
    mov     rdx, [rcx]                                  // [3]
    mov     rax, [rdi + 8]
    or      rax, rdx                                    // [4]
    mov     [rcx], rax                                  // [5] commit
.Lpost_set_each:
    test    rdx, rdx                                    // [6] it was 0
    je      1f
    test    rdx, [rdi + 8]                              //     a bit was set already
    jne     1f
    lea     r8, [rax + 1]                               //     it is all ones, of 64 or of the fewer of a last word
    test    r8, rax
    je      1f
    add     rdi, 16
    cmp     rdi, rsi
    jb      .Lnext_set_each
1:  mov     rax, rdi
    ret
2:  lea     rax, [rdi + 1]
    ret
    SECTION_ABORT set_each, .Lnext_set_each
    .cfi_endproc
    .size   freeway_alone_set_each, . - freeway_alone_set_each

// Sections of no slab. rdi = the owner, a word: [1], [2] as above  [3] id != owner -> 0
.macro SECTION_BEGIN_AT name
    SECTION_ENTER \name
    xor     eax, eax
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0         // [2]
    js      1f
    mov     r11, [rip + freeway_hot + HOT_ANY_ID]       // [3]
    mov     r11d, fs:[r11]
    cmp     r11, [rdi]
    jne     1f
.endm

    // rsi = word, rdx = expected, rcx = another word, r8 = what that must be, r9 = value
    SECTION_BEGIN_AT store_if
    cmp     [rcx], r8                                   // [4] both words are what is expected
    jne     1f
    cmp     [rsi], rdx
    jne     1f
    mov     [rsi], r9                                   // [5] commit
.Lpost_store_if:
    mov     eax, 1
1:  ret
    SECTION_END store_if

    // rsi = top
    SECTION_BEGIN_AT pop_own
    mov     r11, [rsi]
    mov     rax, [r11 - 8]                              // [4] the top block; 0: empty
    test    rax, rax
    je      1f
    sub     qword ptr [rsi], 8                          // [5] commit
.Lpost_pop_own:
1:  ret
    SECTION_END pop_own

// The same on the cache of this CPU. rsi = entry's offset: [1], [2] as above  [3] r9 = entry; no cache -> `none`
.macro SECTION_BEGIN_OWN name, heap, none
    SECTION_ENTER \name
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0         // [2]
    js      \none
    mov     r9, [rip + freeway_hot + HOT_ANY_ID]        // [3]
    mov     r9d, fs:[r9]
    cmp     r9d, [\heap + OWN_IDS]
    jae     \none
    mov     r9, [\heap + r9*8 + OWN_CACHE_OF]
    test    r9, r9
    je      \none
    add     r9, rsi
.endm

// rdi = heap. A block of it, or what is done at `none`.
.macro GIVE_OWN name, none
    SECTION_BEGIN_OWN \name, rdi, \none
    lea     r10, [r9 + OWN_TOP]                         // [4] the magazine's top block: top = top - 8
    mov     r11, [r10]
    sub     r11, 8
    mov     rax, [r11]
    test    rax, rax
    jne     2f
    mov     r8, [r9 + OWN_BASE]                         // [5] there is none: a block of the slice, its bit taken off free
    test    r8, r8
    je      3f
    lea     r10, [r9 + OWN_FREE]
    mov     r11, [r10]
    test    r11, r11
    je      \none
    bsf     rcx, r11
    mov     eax, [r8 + OWN_SLICE_SIZE]
    imul    rax, rcx
    add     rax, [r8 + OWN_SLICE_ADDRESS]
    lea     rcx, [r11 - 1]
    and     r11, rcx
    jmp     2f
3:  mov     ecx, [r9 + OWN_CLASS]                       // [6] nor one: the strip's next block, next moved behind it
    mov     r11d, [r9 + OWN_SIZE]
    sub     r9, rsi
    mov     r8, [r9 + OWN_STRIP_BASE]
    test    r8, r8
    je      \none
    lea     r10, [r9 + OWN_STRIP_NEXT]
    mov     rax, [r10]
    add     r11, rax
    cmp     r11, [r8 + OWN_SLICE_END]
    ja      \none
    mov     r9, rax
    shr     r9, 4
    add     r9, [r8 + OWN_SLICE_KINDS]
    mov     [r9], cl
2:  mov     [r10], r11                                  // [7] commit
.Lpost_\name:
    ret
    SECTION_END \name
.endm

    GIVE_OWN give_own, .Lnothing
    GIVE_OWN malloc_own, freeway_malloc_own_slow        // rdx = bytes
.Lnothing:
    xor     eax, eax
    ret

    // rdx = block, rcx = slice, r8 = bit; both 0: of a strip
    SECTION_BEGIN_OWN lay_own, rdi, .Lnothing
    xor     eax, eax
    mov     r11, [r9 + OWN_TOP]
    cmp     [r11 - 8], rdx                              // [4] it lies on top; or is the slice's, and in hand
    je      3f
    cmp     [r9 + OWN_BASE], rcx
    jne     2f
    test    [r9 + OWN_FREE], r8
    jne     3f
2:  cmp     qword ptr [r11], 0                          // [5] 0: full
    je      1f
    mov     [r11], rdx                                  // [6]
    add     qword ptr [r9 + OWN_TOP], 8                 // [7] commit
.Lpost_lay_own:
    mov     eax, 1
1:  ret
3:  mov     eax, 2
    ret
    SECTION_END lay_own

    // rdi = block, of a strip, rdx = heap: as lay_own, or what free does otherwise
    SECTION_BEGIN_OWN free_own, rdx, freeway_free_otherwise
    mov     r11, [r9 + OWN_TOP]
    cmp     [r11 - 8], rdi                              // [4]
    je      freeway_free_otherwise
    cmp     qword ptr [r11], 0                          // [5]
    je      freeway_free_otherwise
    mov     [r11], rdi                                  // [6]
    add     qword ptr [r9 + OWN_TOP], 8                 // [7] commit
.Lpost_free_own:
    ret
    SECTION_END free_own

    .section .note.GNU-stack, "", @progbits
