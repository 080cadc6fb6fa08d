/* SPDX-License-Identifier: MIT
 *
 * heap_program: threads that allocate, hand blocks to each other and free them, moving from CPU to CPU all the while;
 * beside them malloc_trim, forked children and children of vfork that allocate and free on the same heap. Each block
 * says how long it is and is filled with a byte that follows from its address; an audit ends it. In C, for any C
 * library.
 *
 *     heap_program [operations of a thread]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "freeway/freeway.h"

enum { kThreads = 6, kTable = 200, kMailboxes = 128, kMostBytes = 40000 };

static void* mailboxes[kMailboxes];
static long operations = 60000;
static int running = kThreads;

static void require(int holds, const char* what) {
  if (holds) return;
  printf("FAILED: %s\n", what);
  fflush(stdout);
  abort();
}

static uint64_t draw(uint64_t* state, uint64_t bound) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 33) % bound;
}

static unsigned char pattern_of(const void* block) { return (unsigned char)(((uintptr_t)block >> 4) * 37 | 1); }

static void* get(uint64_t* state) {
  size_t size = 16 + draw(state, draw(state, 60) == 0 ? kMostBytes - 16 : 500);
  unsigned char* block = malloc(size);
  require(block != NULL, "no memory");
  memcpy(block, &size, sizeof size);
  memset(block + sizeof size, pattern_of(block), size - sizeof size);
  return block;
}

static void put(void* pointer) {
  unsigned char* block = pointer;
  if (block == NULL) return;
  size_t size;
  memcpy(&size, block, sizeof size);
  require(size >= 16 && size <= kMostBytes, "a block's length is damaged");
  for (size_t i = sizeof size; i < size; i++) require(block[i] == pattern_of(block), "a block's contents are damaged");
  memset(block, 0, size);
  free(block);
}

static void move(uint64_t* state) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(draw(state, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN)), &set);
  sched_setaffinity(0, sizeof set, &set);
}

static void* work(void* argument) {
  uint64_t state = (uintptr_t)argument;
  void* table[kTable] = {NULL};
  for (long i = 0; i < operations; i++) {
    void** slot = &table[draw(&state, kTable)];
    if (*slot == NULL) *slot = get(&state);
    else if (draw(&state, 3) == 0)
      *slot = __atomic_exchange_n(&mailboxes[draw(&state, kMailboxes)], *slot, __ATOMIC_ACQ_REL);
    else put(*slot), *slot = NULL;
    if (i % 500 == 0) move(&state);
  }
  for (int i = 0; i < kTable; i++) put(table[i]);
  __atomic_sub_fetch(&running, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* In a child of fork or vfork. */
static void use_the_heap(uint64_t* state) {
  void* blocks[40];
  move(state);
  for (int i = 0; i < 40; i++) blocks[i] = get(state);
  for (int i = 0; i < 40; i++) put(blocks[i]);
}

static void wait_for(pid_t child, const char* what) {
  int status = 0;
  require(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5, what);
}

int main(int argc, char** argv) {
  if (argc > 1) operations = atol(argv[1]);
  pthread_t threads[kThreads];
  uint64_t state = 12345;
  for (uintptr_t i = 0; i < kThreads; i++)
    require(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0, "no thread");
  long trims = 0, forks = 0, vforks = 0;
  while (__atomic_load_n(&running, __ATOMIC_ACQUIRE) > 0 || forks < 3) {
    freeway_trim(0), trims++;
    pid_t child = fork();
    if (child == 0) {
      use_the_heap(&state);
      for (int i = 0; i < kMailboxes; i++) put(__atomic_exchange_n(&mailboxes[i], NULL, __ATOMIC_ACQ_REL));
      _exit(5);
    }
    wait_for(child, "a forked child failed"), forks++;
    child = vfork();
    if (child == 0) {
      use_the_heap(&state);
      _exit(5);
    }
    wait_for(child, "a child of vfork failed"), vforks++;
    put(__atomic_exchange_n(&mailboxes[draw(&state, kMailboxes)], get(&state), __ATOMIC_ACQ_REL));
  }
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < kMailboxes; i++) put(mailboxes[i]);
  freeway_trim(0);
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "the audit found errors");
  require(audit.superblocks_held == audit.superblocks_held_by_slabs && audit.frames_stranded == 0, "memory was lost");
  printf("%ld operations, %ld trims, %ld forks, %ld vforks\n", kThreads * operations, trims, forks, vforks);
  return 0;
}
