// SPDX-License-Identifier: MIT
// alone.S: the sections behind alone.h (x86-64; aarch64 has none).

#include "arch/x86_64/section.inc"

    .intel_syntax noprefix
    .text

    // rdi = word, rsi = mask; rax = the word's old value, rdx = whether the change was done.
    // [1] rseq_cs  [2] not registered, or not alone -> not done  [3] old  [4] new  [5] commit
.macro ALONE name, operation
    SECTION_DESCRIPTOR \name
    .p2align 4
    .globl  freeway_alone_\name
    .hidden freeway_alone_\name
    .type   freeway_alone_\name, @function
freeway_alone_\name:
    .cfi_startproc
    mov     r10, [rip + freeway_rseq + RSEQ_PLACE_AREA]
    lea     r11, [rip + freeway_section_\name]
    mov     fs:[r10 + RSEQ_SECTION], r11                // [1]
.Lstart_\name:
    mov     r9, [rip + freeway_rseq + RSEQ_PLACE_ALONE]
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

    // A loop of sections. rdi = first change {word, mask}, rsi = their end; rax = where it stopped (| 1: that change
    // was not done), rdx = the old value of the last word. Between the commit and the next rseq_cs nothing can go
    // wrong: rdi still names a change that is done, and no section is being restarted.
    // [1] rseq_cs  [2] not registered, or not alone -> not done  [3] old  [4] new  [5] commit  [6] stop or go on
    SECTION_DESCRIPTOR set_each
    .p2align 4
    .globl  freeway_alone_set_each
    .hidden freeway_alone_set_each
    .type   freeway_alone_set_each, @function
freeway_alone_set_each:
    .cfi_startproc
    mov     r10, [rip + freeway_rseq + RSEQ_PLACE_AREA]
    lea     r11, [rip + freeway_section_set_each]
    .p2align 4
.Lnext_set_each:
    mov     fs:[r10 + RSEQ_SECTION], r11                // [1]
.Lstart_set_each:
    mov     r9, [rip + freeway_rseq + RSEQ_PLACE_ALONE] //     idle.cc moves it, and interrupts sections
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

    .section .note.GNU-stack, "", @progbits
