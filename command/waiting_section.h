// SPDX-License-Identifier: MIT
// waiting_section.h: a restartable section that waits within itself, to find out what the kernel does with sections
// that it interrupts.
#pragma once

#include "arch/rseq_layout.h"
#include "base/compiler.h"
#include "base/integers.h"

namespace freeway {

// Waits inside a section, with the calling thread's registered struct rseq at `area`, until the word at `word` changes.
// False: the kernel sent the thread to the abort address; true: it did not, and the thread saw the change.
[[gnu::noinline]] inline bool sees_change_inside_section(void* area, const volatile u64* word) {
  u64 seen;
#if defined(__x86_64__)
  asm volatile(
      ".pushsection __rseq_cs, \"aw\"\n\t"
      ".balign 32\n"
      "5:\n\t"
      ".long 0, 0\n\t"
      ".quad 1f, 3f - 1f, 4f\n\t"
      ".popsection\n\t"
      "lea 5b(%%rip), %%rax\n\t"
      "mov %%rax, %c[section](%[area])\n"
      "1:\n\t"  // start
      "mov (%[word]), %%rax\n"
      "2:\n\t"
      "cmp (%[word]), %%rax\n\t"
      "je 2b\n"
      "3:\n\t"  // end
      "mov $1, %k[seen]\n\t"
      "jmp 6f\n\t"
      ".byte 0x0f, 0xb9, 0x3d\n\t"
      ".long %c[signature]\n"
      "4:\n\t"  // abort
      "xor %k[seen], %k[seen]\n"
      "6:"
      : [seen] "=&r"(seen)
      : [area] "r"(area), [word] "r"(word), [section] "i"(RSEQ_SECTION), [signature] "i"(RSEQ_SIGNATURE)
      : "rax", "cc", "memory");
#else
  asm volatile(
      ".pushsection __rseq_cs, \"aw\"\n\t"
      ".balign 32\n"
      "5:\n\t"
      ".long 0, 0\n\t"
      ".quad 1f, 3f - 1f, 4f\n\t"
      ".popsection\n\t"
      "adrp x9, 5b\n\t"
      "add x9, x9, :lo12:5b\n\t"
      "str x9, [%[area], %[section]]\n"
      "1:\n\t"  // start
      "ldr x9, [%[word]]\n"
      "2:\n\t"
      "ldr x10, [%[word]]\n\t"
      "cmp x9, x10\n\t"
      "b.eq 2b\n"
      "3:\n\t"  // end
      "mov %[seen], #1\n\t"
      "b 6f\n\t"
      ".inst %c[signature]\n"
      "4:\n\t"  // abort
      "mov %[seen], #0\n"
      "6:"
      : [seen] "=&r"(seen)
      : [area] "r"(area), [word] "r"(word), [section] "i"(RSEQ_SECTION), [signature] "i"(RSEQ_SIGNATURE)
      : "x9", "x10", "cc", "memory");
#endif
  return seen != 0;
}

}  // namespace freeway
