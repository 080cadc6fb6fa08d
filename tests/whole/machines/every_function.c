/* SPDX-License-Identifier: MIT
 *
 * every_function: each function of the malloc family, by four threads that free each other's blocks, in a signal
 * handler and in a forked child. What it prints does not depend on the allocator. For memcheck.py.
 * Argument "planted": one choice that depends on memory that was never written.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int malloc_trim(size_t) __attribute__((weak)); /* musl has none */

enum { kThreads = 4, kRounds = 1200, kShared = 64 };

static void* shared[kShared];

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "every_function: %s\n", what);
  abort();
}

static void* filled(void* block, size_t size, size_t alignment) {
  require(block != NULL, "no memory");
  require((uintptr_t)block % alignment == 0, "a block is not aligned");
  require(malloc_usable_size(block) >= size, "a block is too small");
  memset(block, (int)(size & 127) + 1, size);
  return block;
}

static void* obtain(unsigned turn, size_t size) {
  void* block = NULL;
  switch (turn % 6) {
    case 0: return filled(malloc(size), size, 16);
    case 1: {
      char* zero = calloc(3, size);
      require(zero != NULL && zero[0] == 0 && zero[3 * size - 1] == 0, "calloc's block is not zero");
      return filled(zero, size, 16);
    }
    case 2: return filled(aligned_alloc(256, size), size, 256);
    case 3: require(posix_memalign(&block, 4096, size) == 0, "posix_memalign"); return filled(block, size, 4096);
    case 4: return filled(realloc(malloc(size / 2 + 1), size), size, 16);
    default: return filled(memalign(64, size), size, 64);
  }
}

static void* work(void* argument) {
  unsigned state = (unsigned)(uintptr_t)argument;
  for (unsigned i = 0; i < kRounds; i++) {
    state = state * 1664525u + 1013904223u;
    size_t size = 1 + (state >> 8) % (i % 50 == 0 ? 100000 : 700);
    void* block = obtain(state >> 28, size);
    free(__atomic_exchange_n(&shared[(state >> 16) % kShared], block, __ATOMIC_ACQ_REL));
  }
  return NULL;
}

static volatile sig_atomic_t handled;
static void on_signal(int number) {
  (void)number;
  free(filled(malloc(100), 100, 16));
  handled = handled + 1;
}

static void fork_and_go_on(void) {
  pid_t child = fork();
  if (child == 0) {
    for (unsigned i = 0; i < kShared; i++) free(shared[i]);
    free(filled(malloc(5000), 5000, 16));
    _exit(7);
  }
  int status = 0;
  require(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "the child failed");
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "planted") == 0) {
    int unwritten[4];
    __asm__ volatile("" : : "r"(unwritten) : "memory");
    puts(unwritten[2] == 12345 ? "one" : "another");
    return 0;
  }
  signal(SIGUSR1, on_signal);
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; i++)
    require(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0, "no thread");
  for (int i = 0; i < 50; i++) raise(SIGUSR1);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  fork_and_go_on();
  for (unsigned i = 0; i < kShared; i++) free(shared[i]);
  if (malloc_trim != NULL) malloc_trim(0);
  free(filled(malloc(300), 300, 16));
  printf("%d threads, %d signals\n", kThreads, (int)handled);
  return 0;
}
