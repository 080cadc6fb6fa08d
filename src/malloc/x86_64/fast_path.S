// SPDX-License-Identifier: MIT
// fast_path.S: malloc and free, from entry to return (x86-64).
//
// One magazine per CPU and size class; `top` points past its uppermost block. Below the first slot and past the last
// one stands 0, so an empty magazine reads 0 below top and a full one reads 0 at top: no limit is loaded. A CPU without
// a slab finds the null slab, empty and full at once. Class 0 (large, foreign, NULL) is such a class in every slab.
//
//   malloc(n)                                            free(p)
//   [1] class = byte_table[n]        (else step table)   [1] class = frame_bytes[(p - arena) >> 16]  (else slow)
//   [2] rseq_cs = this section                           [7] no block of the class begins at p -> slow
//   [3] not registered -> by cpu_id, or slow             [2] rseq_cs = this section
//   [4] slab = slab_of[mm_cid]                           [3] not registered -> by cpu_id, or slow
//   [5] p = slab.top[class][-1]; 0 -> slow               [4] slab = slab_of[mm_cid]
//   [6] slab.top[class] -= 8         (commit)            [5] *slab.top[class] == 0 -> slow; p is on top -> slow
//                                                        [6] *slab.top[class] = p; slab.top[class] += 8   (commit)
//                                                        [8] slab.home[class] != home[frame of p] -> foreign
//
// Before initialisation the limits are 0 and everything is slow.
// [3] costs two instructions and catches threads that libc could not register (a seccomp filter that came later)
//     and children of vfork; mm_cid alone would read 0 there, which is somebody's slab.
// [7] p's offset in its span is that of a block: see SizeClass::begin_factor. For class 0 the limit is 0.
// [8] See cache/homes.h. The block is in the magazine already, and the thread may be on another CPU: it reads and
//     counts hints.
//
// The same once more, *checked*, for FREEWAY_HARDEN=1: the limits are 0 and lead there. It knows which blocks are live:
//   malloc, behind [6]   birth[p] = tag(p)               free, for [7]   birth[p] != tag(p) -> slow; birth[p] = 0
// birth[p] lies at birth_base[class] + (p >> the class's shift), tag(p) is the low byte of p + 1: harden/births.h. The
// shift is a multiplication and a shift by 8, since a shift by a register would want the class's. Blocks that are born
// elsewhere are negative in their slots (cache/slots.h): [5] takes them for none. A thread that comes to
// freeway_free_full has ended the block's life: the block is in its hands alone. Freed blocks go to the magazine in
// which they rest (harden/quarantine.h): another word of the slab in [5] and [6], and no [8], since all of them go back
// to their superblocks.
//
// And once more malloc, *counted*, while a profile is made: the limits are 0 and lead there, too. Between [5] and [6]
// it takes its size from the bytes that are left up to the next sampled one (slab.gap):
//   slab.gap <= n -> freeway_malloc_chosen(n, slab)      slab.gap -= n
// A call that is interrupted between that store and the commit counts twice. A call that cannot count (an empty
// magazine, no section) draws instead, in freeway_malloc_drawn. free knows nothing of it: sampled blocks lie in frames
// of class 0.
//
// The forms of free that are told the size are free with one step more:
//   [9] the size's class is not the frame's -> slow, where a loan (cache/loans.h) or realloc may be why (sizes.h)
// operator new, and delete: new.S.
//
// Counted by tests/whole/golden: 16 instructions malloc, 29 free. Checked by tests/cache/rseq.

#include "malloc/x86_64/fast_path.inc"

    .text

    // A program linked with the static library may name malloc and free alone: libc's own calls of calloc and realloc
    // must not bring in libc's malloc beside ours, so this file brings abi/malloc.cc along.
    .reloc  0, R_X86_64_NONE, freeway_calloc

    SECTION_DESCRIPTOR malloc
    SECTION_DESCRIPTOR malloc_by_cpu
    SECTION_DESCRIPTOR free
    SECTION_DESCRIPTOR free_by_cpu
    SECTION_DESCRIPTOR checked_malloc
    SECTION_DESCRIPTOR checked_malloc_by_cpu
    SECTION_DESCRIPTOR counted_malloc
    SECTION_DESCRIPTOR counted_malloc_by_cpu
    SECTION_DESCRIPTOR checked_free
    SECTION_DESCRIPTOR checked_free_by_cpu

// All of malloc in a form that is used while the limits are 0.
.macro MALLOC form_name, form, out
    cmp     rdi, HOT_BYTE_SIZES
    jae     .L\form_name\()_medium
    movzx   ecx, byte ptr [r8 + rdi + HOT_BYTE_TABLE]
.L\form_name\()_malloc_class:
    SECTION POP, \form_name\()_malloc, \form
.L\form_name\()_medium:
    cmp     rdi, HOT_STEP_SIZES
    jae     freeway_malloc_slow
    lea     rcx, [rdi + 127]
    shr     rcx, 7
    movzx   ecx, byte ptr [r8 + rcx + HOT_STEP_TABLE]
    jmp     .L\form_name\()_malloc_class
    SECTION_BY_CPU POP, \form_name\()_malloc_by_cpu, \form, \out
.endm

    // On a page of its own, so that its time does not depend on what else is linked: random_replace took 0.36 s with
    // malloc at six places in a page, and 0.43 s with it at 0x180 and the same instructions.
    .p2align 12
    FUNCTION freeway_malloc
#ifndef FREEWAY_PREFIXED
    FUNCTION malloc
#endif
    .cfi_startproc
    lea     r8, [rip + freeway_hot]
    cmp     rdi, [r8 + HOT_BYTE_LIMIT]
    jae     .Lmedium
    movzx   ecx, byte ptr [r8 + rdi + HOT_BYTE_TABLE]   // [1]
.Lmalloc_class:
    SECTION POP, malloc, PLAIN
.Lmedium:
    cmp     rdi, [r8 + HOT_STEP_LIMIT]
    jae     .Lleave_malloc
    lea     rcx, [rdi + 127]
    shr     rcx, 7
    movzx   ecx, byte ptr [r8 + rcx + HOT_STEP_TABLE]
    jmp     .Lmalloc_class
    SECTION_BY_CPU POP, malloc_by_cpu, PLAIN, freeway_malloc_slow
.Lleave_malloc:
    cmp     qword ptr [r8 + HOT_MALLOC_FORM], MALLOC_COUNTED
    jb      freeway_malloc_slow
    jne     .Luncounted_malloc

    // Counted.
    MALLOC  counted, COUNTED, freeway_malloc_drawn

.Luncounted_malloc:
    cmp     qword ptr [r8 + HOT_MALLOC_FORM], MALLOC_CHECKED
    jne     freeway_malloc_drawn

    // Checked.
    MALLOC  checked, CHECKED, freeway_malloc_slow
    SECTION_ABORT malloc, .Lmalloc_class
    SECTION_ABORT malloc_by_cpu, .Lmalloc_by_cpu
    SECTION_ABORT checked_malloc, .Lchecked_malloc_class
    SECTION_ABORT checked_malloc_by_cpu, .Lchecked_malloc_by_cpu
    SECTION_ABORT counted_malloc, .Lcounted_malloc_class
    SECTION_ABORT counted_malloc_by_cpu, .Lcounted_malloc_by_cpu
    .cfi_endproc
    END     freeway_malloc
#ifndef FREEWAY_PREFIXED
    END     malloc
#endif

// From [4] to [8] of free; the CPU's number is in eax; rcx = class, rdx = frame, rdi = block.
.macro PUSH name, form, at:vararg
    mov     rsi, [r8 + rax*8 + HOT_SLAB_OF \at]         // [4]
    mov     rax, [rsi + rcx*8 + (\form * SLAB_REST)] // [5]
    cmp     qword ptr [rax], 0
  .if \form == CHECKED
    je      freeway_free_full
  .else
    je      .Lleave_free
    cmp     [rax - 8], rdi
    je      .Lleave_free
  .endif
    mov     [rax], rdi                                  // [6]
    add     qword ptr [rsi + rcx*8 + (\form * SLAB_REST)], 8
.Lpost_\name:
  .if \form == PLAIN
    movzx   eax, byte ptr [rsi + rcx + SLAB_HOME]       // [8]
    cmp     al, [r8 + rdx*2 + HOT_FRAME_HOME \at]
    jne     .Lforeign
  .endif
    ret
.endm

    .p2align 6
    .hidden freeway_own_free
    FUNCTION freeway_own_free, freeway_free
#ifndef FREEWAY_PREFIXED
    FUNCTION free, cfree  // (cfree: of programs linked before glibc 2.26)
#endif
    .cfi_startproc
    lea     r8, [rip + freeway_hot + HOT_FREE_SECTION]
    mov     rdx, rdi
    sub     rdx, [r8 + HOT_ARENA AT_FREE]
    shr     rdx, 16
    cmp     rdx, [r8 + HOT_FRAMES AT_FREE]
    jae     .Lleave_free
    movzx   ecx, byte ptr [r8 + rdx*2 + HOT_FRAME_CLASS AT_FREE]  // [1]
    .globl  freeway_inside_free                         // of a block whose class is known (new.S)
    .hidden freeway_inside_free
freeway_inside_free:
    mov     r9, [r8 + rcx*8 + HOT_SPAN_MASK AT_FREE]    // [7]
    and     r9, rdi
    imul    r9, [r8 + rcx*8 + HOT_FACTOR AT_FREE]
    cmp     r9, [r8 + rcx*8 + HOT_FACTOR_LIMIT AT_FREE]
    jae     .Lno_block
.Lfree_class:
    SECTION PUSH, free, PLAIN, AT_FREE
    SECTION_BY_CPU PUSH, free_by_cpu, PLAIN, freeway_free_slow, AT_FREE
.Lforeign:
    sub     dword ptr [rsi + SLAB_PATIENCE], 1
    js      freeway_send_home
    ret
.Lno_block:
    test    ecx, ecx
    je      freeway_free_own                            // (block, -, frame)
.Lleave_free:
    mov     rax, [r8 + HOT_CHECKED AT_FREE]
    test    rax, rax
    je      freeway_free_slow

    // Checked; rax = frames.
    cmp     rdx, rax
    jae     freeway_free_slow
    test    dil, 15
    jne     freeway_free_slow
    movzx   ecx, byte ptr [r8 + rdx*2 + HOT_FRAME_CLASS AT_FREE]
    BIRTH   r9, rdi, r8 AT_FREE
    lea     eax, [rdi + 1]
    cmp     [r9], al
    jne     freeway_free_slow
    mov     byte ptr [r9], 0
.Lchecked_free_class:
    SECTION PUSH, checked_free, CHECKED, AT_FREE
    SECTION_BY_CPU PUSH, checked_free_by_cpu, CHECKED, freeway_free_full, AT_FREE
    SECTION_ABORT free, .Lfree_class
    SECTION_ABORT free_by_cpu, .Lfree_by_cpu
    SECTION_ABORT checked_free, .Lchecked_free_class
    SECTION_ABORT checked_free_by_cpu, .Lchecked_free_by_cpu
    .cfi_endproc
    END     freeway_own_free, freeway_free
#ifndef FREEWAY_PREFIXED
    END     free, cfree
#endif

    .p2align 5
    FUNCTION freeway_free_sized
#ifndef FREEWAY_PREFIXED
    FUNCTION free_sized
#endif
    .cfi_startproc
    SIZED   free_sized, HOT_FRAMES, freeway_free_sized_slow
    .cfi_endproc
    END     freeway_free_sized
#ifndef FREEWAY_PREFIXED
    END     free_sized
#endif

    // In a program without C++'s forms, whose object (new.cc) has the real one. Not a weak reference: gold makes an
    // address of one that is missing.
    .p2align 4
    .hidden freeway_delete_is_ours
    REPLACEABLE freeway_delete_is_ours
    .cfi_startproc
    xor     eax, eax
    ret
    .cfi_endproc
    END     freeway_delete_is_ours

    .section .note.GNU-stack, "", @progbits
