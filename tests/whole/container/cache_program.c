/* SPDX-License-Identifier: MIT
 *
 * cache_program.c: a cache that takes what memory there is. It fills blocks until `MiB` (its argument) in all were
 * asked for; where malloc says NULL it drops the older half and goes on. The last line tells how often that was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSlots = 1 << 20 };
static void* slots[kSlots];

int main(int count, char** arguments) {
  const size_t wanted = (size_t)(count > 1 ? atol(arguments[1]) : 512) << 20;
  size_t oldest = 0, newest = 0, refused = 0;
  unsigned state = 12345;
  for (size_t asked = 0; asked < wanted;) {
    state = state * 1664525 + 1013904223;
    const size_t size = (state >> 20) % 64 == 0 ? 300000 + (state >> 8) % 700000 : 500 + (state >> 8) % 20000;
    void* block = newest - oldest < kSlots ? malloc(size) : NULL;
    if (block == NULL) {
      if (newest == oldest) return fputs("nothing is left to drop\n", stderr), 1;
      ++refused;
      for (size_t most = (newest + oldest + 1) / 2; oldest < most; ++oldest) free(slots[oldest % kSlots]);
      continue;
    }
    memset(block, (int)(asked & 0xff), size);
    slots[newest++ % kSlots] = block;
    asked += size;
  }
  printf("filled %zu MiB, refused %zu times\n", wanted >> 20, refused);
  return refused == 0;
}
