/* SPDX-License-Identifier: MIT
 *
 * A malloc that makes one kind of mistake, to be preloaded: does a benchmark's checksum notice? It never uses a block
 * again (free does nothing), so without a mistake it is right. FAULTY_KIND says which mistake it makes, with every 61st
 * block of FAULTY_LEAST to FAULTY_MOST bytes (other sizes are served rightly: a thread's start is not to be broken):
 *   none    none
 *   twice   the block is the one that was handed out before it
 *   forget  the block that was handed out before it loses its contents
 *   one     all of them, not only every 61st, are one block
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 16, EVERY = 61 };
static const size_t kArena = (size_t)16 << 30;

static _Atomic(uintptr_t) arena;
static atomic_size_t used;
static _Atomic(char*) before;
static atomic_ulong served;
static size_t least, most;
static char kind = '?';

static char* carve(size_t size, size_t alignment) {
  uintptr_t start = atomic_load(&arena);
  if (start == 0) {
    void* mapped = mmap(NULL, kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) abort();
    if (atomic_compare_exchange_strong(&arena, &start, (uintptr_t)mapped)) start = (uintptr_t)mapped;
  }
  /* A header with the size, for realloc. */
  size_t whole = (size + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + alignment;
  size_t offset = atomic_fetch_add(&used, whole);
  if (offset + whole > kArena) abort();
  uintptr_t block = (start + offset + ALIGNMENT + alignment - 1) / alignment * alignment;
  ((size_t*)block)[-1] = size;
  return (char*)block;
}

static void read_orders(void) {
  const char* text = getenv("FAULTY_KIND");
  const char* from = getenv("FAULTY_LEAST");
  const char* to = getenv("FAULTY_MOST");
  least = from ? (size_t)atol(from) : 1;
  most = to ? (size_t)atol(to) : 0;
  kind = text ? text[0] : 'n';
}

void* malloc(size_t size) {
  if (kind == '?') read_orders();
  if (kind == 'n' || size < least || size > most) return carve(size, ALIGNMENT);
  unsigned long turn = atomic_fetch_add(&served, 1) + 1;
  char* last = atomic_load(&before);
  int at_fault = kind == 'o' || turn % EVERY == 0;
  if (last != NULL && at_fault && kind != 'f' && ((size_t*)last)[-1] >= size) return last;
  if (last != NULL && at_fault && kind == 'f') memset(last, 0, ((size_t*)last)[-1]);
  char* block = carve(kind == 'o' ? most : size, ALIGNMENT);
  atomic_store(&before, block);
  return block;
}

void free(void* block) { (void)block; }

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  return carve(bytes, ALIGNMENT); /* fresh pages are zero, and nothing is used twice */
}

void* realloc(void* block, size_t size) {
  char* moved = carve(size, ALIGNMENT);
  if (block != NULL) {
    size_t old = ((size_t*)block)[-1];
    memcpy(moved, block, old < size ? old : size);
  }
  return moved;
}

void* memalign(size_t alignment, size_t size) { return carve(size, alignment < ALIGNMENT ? ALIGNMENT : alignment); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  *result = memalign(alignment, size);
  return 0;
}
