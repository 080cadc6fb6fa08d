// SPDX-License-Identifier: MIT
// syscall.h: raw system calls. They return the kernel's answer (a negative errno on failure) and leave errno alone, as
// `free` must; libc's wrappers do not.
#pragma once

#include <sys/syscall.h>

#include "base/integers.h"

namespace freeway {

inline long raw_syscall(long number, u64 a = 0, u64 b = 0, u64 c = 0, u64 d = 0, u64 e = 0, u64 f = 0) {
#if defined(__x86_64__)
  long result;
  register u64 r10 asm("r10") = d;
  register u64 r8 asm("r8") = e;
  register u64 r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register u64 x0 asm("x0") = a;
  register u64 x1 asm("x1") = b;
  register u64 x2 asm("x2") = c;
  register u64 x3 asm("x3") = d;
  register u64 x4 asm("x4") = e;
  register u64 x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return static_cast<long>(x0);
#else
#error "Freeway knows x86-64 and aarch64"
#endif
}

}  // namespace freeway
