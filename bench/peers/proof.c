/* SPDX-License-Identifier: MIT
 *
 * proof.c: a small program that install.py runs under each peer. It uses every form of malloc from two threads, checks
 * contents and alignment, and prints the file that malloc, free and aligned_alloc come from, a line each.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlocks = 2000 };

static void fail(const char* what) {
  fprintf(stderr, "proof: %s\n", what);
  exit(1);
}

static void* allocate(size_t i) {
  const size_t size = 1 + i * i % 70000;
  void* block = NULL;
  switch (i % 4) {
    case 0: return malloc(size);
    case 1: return calloc(1, size);
    case 2: return realloc(malloc(size / 2 + 1), size);
    default: return posix_memalign(&block, 64, size) == 0 && (uintptr_t)block % 64 == 0 ? block : NULL;
  }
}

static void* work(void* number) {
  unsigned char* blocks[kBlocks];
  const unsigned char mine = *(const unsigned char*)number;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks[i] = allocate(i);
    if (blocks[i] == NULL) fail("an allocation failed or was not aligned");
    memset(blocks[i], mine + (int)(i % 100), 1 + i * i % 70000);
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    const size_t size = 1 + i * i % 70000;
    const unsigned char wanted = (unsigned char)(mine + (int)(i % 100));
    if (malloc_usable_size(blocks[i]) < size || blocks[i][0] != wanted || blocks[i][size - 1] != wanted)
      fail("a block lost its contents");
    free(blocks[i]);
  }
  return NULL;
}

int main(void) {
  static const char* const names[] = {"malloc", "free", "aligned_alloc"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    Dl_info info;
    void* symbol = dlsym(RTLD_DEFAULT, names[i]);
    if (symbol == NULL || dladdr(symbol, &info) == 0) fail("a name of malloc is missing");
    printf("%s\n", info.dli_fname);
  }
  unsigned char one = 1, two = 101;
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, &two) != 0) fail("no thread");
  work(&one);
  pthread_join(thread, NULL);
  return 0;
}
