// SPDX-License-Identifier: MIT
// leaking_program.c: allocates 300 blocks of 5000 bytes in one place, and frees 100 of them.
#include <stdlib.h>

enum { kBlocks = 300, kFreed = 100, kBytes = 5000 };

static void* volatile blocks[kBlocks];

__attribute__((noinline)) void leak(void) {
  for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(kBytes);
}

__attribute__((noinline)) void release(void) {
  for (int i = 0; i < kFreed; ++i) free(blocks[i]);
}

int main(void) {
  leak();
  release();
  return 0;
}
