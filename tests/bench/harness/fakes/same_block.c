// SPDX-License-Identifier: MIT
//
// same_block: a malloc that hands out one block again and again, though it was not freed.
#include "forward.h"

static char block[1024] __attribute__((aligned(16)));

void* malloc(size_t size) {
  static int calls;
  if (++calls > kGoodCalls && calls % 16 == 0 && size <= sizeof block) return block;
  return __libc_malloc(size);
}

void free(void* freed) {
  if (freed != (void*)block) __libc_free(freed);
}
