// SPDX-License-Identifier: MIT
// compiler.h: the few compiler hints that Freeway uses, under one name each.
#pragma once

#define FREEWAY_LIKELY(x) __builtin_expect(!!(x), 1)
#define FREEWAY_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FREEWAY_INLINE inline __attribute__((always_inline))
#define FREEWAY_NOINLINE __attribute__((noinline))
// For size, in a source that is compiled for speed: what a call with memory at hand does not execute.
#define FREEWAY_COLD __attribute__((cold, noinline))
#define FREEWAY_HIDDEN __attribute__((visibility("hidden")))
#define FREEWAY_EXPORT __attribute__((visibility("default")))
