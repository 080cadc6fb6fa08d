// SPDX-License-Identifier: MIT
// compiler.h: the few compiler hints that Freeway uses, under one name each.
#pragma once

#define FREEWAY_LIKELY(x) __builtin_expect(!!(x), 1)
#define FREEWAY_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FREEWAY_INLINE inline __attribute__((always_inline))
#define FREEWAY_NOINLINE __attribute__((noinline))
// Large and zero at first: behind the small words, which thus lie on few pages (src/order.ld).
#define FREEWAY_LARGE __attribute__((section(".bss.large"), aligned(4096)))
#define FREEWAY_HIDDEN __attribute__((visibility("hidden")))
#define FREEWAY_EXPORT __attribute__((visibility("default")))
