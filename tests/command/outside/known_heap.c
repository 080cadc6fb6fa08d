/* SPDX-License-Identifier: MIT
 *
 * known_heap.c: a program with a heap of known contents, to be looked at from outside: it says what it has, as JSON on
 * fd 1, and stops. With an argument it does something else:
 *
 *   busy N   instead of stopping, N threads allocate and free for ever
 *   explain  says on fd 2 what its addresses are, as freeway_explain_to does
 *   arenas   has blocks in several arenas
 *   none     stops before it has allocated anything
 *   step     instead of stopping, it calls malloc and free of many sizes, stops, and goes on for ever, for who steps
 * through it
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "freeway/freeway.h"
#include "freeway/heap.h"

#define SMALL 3000
#define THREADS 3
#define HUGE_BYTES ((size_t)300 << 20)

static void* small[SMALL];
static void* of_thread[THREADS][200];
static char* addresses[100];
static size_t told;
static void* hands[64]; /* what it holds while it is stepped through */

static void* allocate(void* number) {
  const size_t t = (size_t)number;
  for (size_t i = 0; i < 200; ++i) of_thread[t][i] = malloc(64 * (t + 1) + i);
  for (size_t i = 0; i < 200; i += 2) free(of_thread[t][i]);
  return NULL;
}

static void make_heap(void) {
  pthread_t threads[THREADS];
  for (size_t i = 0; i < SMALL; ++i) small[i] = malloc(16 + i % 40 * 60);
  for (size_t i = 0; i < SMALL; i += 3) free(small[i]);
  for (size_t t = 0; t < THREADS; ++t)
    if (pthread_create(&threads[t], NULL, allocate, (void*)t) != 0) abort();
  for (size_t t = 0; t < THREADS; ++t) pthread_join(threads[t], NULL);
}

static size_t churn_in(void** blocks, size_t seed, size_t rounds) {
  size_t i = seed;
  for (; rounds > 0; --rounds, i = i * 6364136223846793005u + 1442695040888963407u) {
    const size_t slot = i >> 58;
    free(blocks[slot]);
    blocks[slot] = malloc(16 + (i >> 40 & (i >> 62 == 3 ? 0xfffff : 0x7ff)));
  }
  return i;
}

static void* churn(void* seed) {
  void* blocks[64] = {0};
  churn_in(blocks, (size_t)seed, SIZE_MAX);
  return NULL;
}

static void say(const freeway_stats_t* s) {
  putchar('{');
#define FREEWAY_FIGURE(name, ...) printf("\"" #name "\": %zu,\n ", (size_t)s->name);
#include "look/figures.def"
  printf("\"hands\": [%zu], \"addresses\": [", (size_t)hands);
  for (size_t i = 0; i < told; ++i) printf("%s%zu", i == 0 ? "" : ", ", (size_t)addresses[i]);
  puts("]}");
  fflush(stdout);
}

static void tell(char* address) { addresses[told++] = address; }

/* Magazines grow while many blocks come and go. */
static void make_many(void) {
  static void* many[20000];
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < 20000; ++i) many[i] = malloc(48);
    for (size_t i = turn == 2; i < 20000; i += turn == 2 ? 2 : 1) free(many[i]);
  }
}

/* Bitmaps of which the first and the third word, read as a descriptor, would be one: who walks them must not step into
 * them. */
static void make_bitmaps(void) {
  static char* blocks[3 * 4096];
  for (size_t i = 0; i < 3 * 4096; ++i) blocks[i] = malloc(16);
  for (size_t i = 0; i < 3 * 4096; ++i) {
    const size_t index = (size_t)blocks[i] % 65536 / 16;
    if (index == 0 || index == 160 || index == 162) free(blocks[i]);
  }
  freeway_trim(0);
}

/* More than the primary arena holds, hardly any of it touched; the last blocks are in another one, whatever their size.
 */
static void make_arenas(void) {
  for (size_t i = 0; i < 300; ++i)
    if (malloc((size_t)250 << 20) == NULL) abort();
  for (size_t i = 0; i < 300; ++i)
    if (malloc((size_t)1 << 20) == NULL) abort();
  for (size_t i = 0; i < 64; ++i)
    if (malloc(60000) == NULL) abort();
  static void* far[2000];
  for (size_t i = 0; i < 2000; ++i) far[i] = malloc(3000);
  for (size_t i = 0; i < 2000; i += 2) free(far[i]);
}

static void make_large(void) {
  char* large = malloc(300000);
  char* freed_large = malloc(3000000);
  char* huge = malloc(HUGE_BYTES);
  if (huge == NULL || madvise(huge, HUGE_BYTES, MADV_DONTDUMP) != 0) abort(); /* core files stay short */
  memset(freed_large, 1, 3000000);
  free(freed_large);
  char* cached = malloc(777);
  free(cached);
  for (size_t i = 1; i < SMALL; i += 173) {
    tell(small[i]);
    tell((char*)small[i] + 7);
  }
  for (size_t t = 0; t < THREADS; ++t)
    for (size_t i = 0; i < 6; ++i) tell(of_thread[t][i]);
  tell(large);
  tell(large + 299999);
  tell(large + 327679);
  tell(freed_large);
  tell(freed_large + 2999999);
  tell(huge);
  tell(huge + 12345);
  tell(huge + HUGE_BYTES);
  tell(cached);
  tell(cached + 776);
  for (size_t i = 0, guarded = 0; i < SMALL && guarded < 8; ++i) {
    freeway_explanation_t found;
    if (freeway_explain(small[i], &found, sizeof(found)) != FREEWAY_GUARDED_BLOCK) continue;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = (size_t)small[i] / page * page;
    tell((char*)begin - 1); /* the fences, of which each has a block on either side */
    tell((char*)begin - page / 2 - 8);
    tell((char*)begin + page);
    ++guarded;
  }
  tell((char*)&told);
  tell((char*)((size_t)small[1] | 0xffff));
  tell((char*)((size_t)large & ~(size_t)0xffff) - 1);
}

int main(int argc, char** argv) {
  static char output[1 << 16];
  setvbuf(stdout, output, _IOFBF, sizeof(output));
  const char* what = argc > 1 ? argv[1] : "";
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* where only ancestors may look */
  if (strcmp(what, "none") == 0) raise(SIGSTOP);
  make_heap();
  make_bitmaps();
  make_many();
  if (strcmp(what, "arenas") == 0) make_arenas();
  if (strcmp(what, "heaps") == 0) {
    char* block = freeway_heap_malloc(freeway_heap_new(NULL, 0), 100);
    if (block == NULL) abort();
    tell(block);
  }
  make_large();
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof(stats));
  say(&stats);
  if (strcmp(what, "explain") == 0)
    for (size_t i = 0; i < told; ++i) freeway_explain_to(2, addresses[i]);
  if (strcmp(what, "busy") == 0) {
    for (long n = strtol(argv[2], NULL, 10); n > 0; --n) {
      pthread_t thread;
      if (pthread_create(&thread, NULL, churn, (void*)n) != 0) abort();
    }
    pause();
  }
  if (strcmp(what, "step") == 0) {
    const size_t seed = churn_in(hands, 7, 20000); /* its caches are filled when it stops */
    raise(SIGSTOP);
    churn_in(hands, seed, SIZE_MAX);
  }
  raise(SIGSTOP);
  return 0;
}
