// SPDX-License-Identifier: MIT
// registers.h: the registers that functions keep for their callers. An unwinder needs them as they were when the stack
// was copied.
#pragma once

#include "base/integers.h"

namespace freeway {

struct Registers {
#if defined(__x86_64__)
  static constexpr const char* kArchitecture = "x86_64";
  static constexpr char kNames[][4] = {"pc", "sp", "fp", "rbx", "r12", "r13", "r14", "r15"};
#elif defined(__aarch64__)
  static constexpr const char* kArchitecture = "aarch64";
  static constexpr char kNames[][4] = {"pc",  "sp",  "fp",  "lr",  "x19", "x20", "x21",
                                       "x22", "x23", "x24", "x25", "x26", "x27", "x28"};
#endif
  static constexpr unsigned kCount = sizeof(kNames) / sizeof(kNames[0]);
  u64 values[kCount];  // in the order of the names
};

// The registers of the enclosing function.
__attribute__((always_inline)) inline void read_registers(Registers& into) {
#if defined(__x86_64__)
  asm volatile(
      "lea  0(%%rip), %%rax\n\tmov %%rax, (%0)\n\tmov %%rsp, 8(%0)\n\tmov %%rbp, 16(%0)\n\tmov %%rbx, 24(%0)\n\t"
      "mov  %%r12, 32(%0)\n\tmov %%r13, 40(%0)\n\tmov %%r14, 48(%0)\n\tmov %%r15, 56(%0)" ::"r"(into.values)
      : "rax", "memory");
#elif defined(__aarch64__)
  asm volatile(
      "adr x9, .\n\tmov x10, sp\n\tstp x9, x10, [%0]\n\tstp x29, x30, [%0, #16]\n\tstp x19, x20, [%0, #32]\n\t"
      "stp x21, x22, [%0, #48]\n\tstp x23, x24, [%0, #64]\n\tstp x25, x26, [%0, #80]\n\tstp x27, x28, [%0, #96]" ::"r"(
          into.values)
      : "x9", "x10", "memory");
#endif
}

}  // namespace freeway
