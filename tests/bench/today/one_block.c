// SPDX-License-Identifier: MIT
//
// one_block.c: a malloc that must be caught: from the hundredth call on blocks of $ONE_BLOCK_SIZE bytes (128) are all
// the same one. Others come one behind the other, and nothing is ever freed.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(64) char memory[256u << 20];
static _Alignas(64) char same[1024];
static size_t used, calls, chosen;

void* malloc(size_t size) {
  const size_t rounded = (size + 63) & ~(size_t)63;
  if (chosen == 0) {
    const char* text = getenv("ONE_BLOCK_SIZE");
    chosen = text != NULL ? strtoul(text, NULL, 10) : 128;
  }
  if (size == chosen && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) > 100) return same;
  const size_t at = __atomic_fetch_add(&used, rounded, __ATOMIC_RELAXED);
  return at + rounded <= sizeof memory ? memory + at : NULL;
}
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t size) { return malloc(count * size); }  // the memory is zero, and used once
void* realloc(void* block, size_t size) {
  void* made = malloc(size);
  if (made != NULL && block != NULL) memcpy(made, block, size);
  return made;
}
