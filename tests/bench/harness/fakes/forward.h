// SPDX-License-Identifier: MIT
//
// forward.h: a malloc that is glibc's, for fakes that misbehave on top of it.
#ifndef FREEWAY_TESTS_BENCH_HARNESS_FAKES_FORWARD_H
#define FREEWAY_TESTS_BENCH_HARNESS_FAKES_FORWARD_H

#include <stddef.h>

void* __libc_malloc(size_t size);
void __libc_free(void* block);

enum { kGoodCalls = 500 };  // more than a program's start needs, fewer than any workload makes

#endif  // FREEWAY_TESTS_BENCH_HARNESS_FAKES_FORWARD_H
