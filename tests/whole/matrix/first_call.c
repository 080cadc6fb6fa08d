/* SPDX-License-Identifier: MIT
 *
 * first_call: each function of the malloc family as the process's very first call, before any constructor has run, the
 * library's included (glibc calls free(NULL) so from 2.44 on). Starts itself anew for each of them; a function is
 * called from DT_PREINIT_ARRAY, or, where the C library does not know that (musl), first of all in main. The process
 * then goes on: what was allocated is filled, checked and freed in main, with a thread and an audit.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "freeway/freeway.h"

enum { kBytes = 4096 };

static void* result;
static int called;

static void free_null(void) { free(NULL); }
static void malloc_it(void) { result = malloc(kBytes); }
static void calloc_it(void) { result = calloc(kBytes / 8, 8); }
static void realloc_null(void) { result = realloc(NULL, kBytes); }
static void reallocarray_null(void) { result = freeway_reallocarray(NULL, kBytes / 8, 8); }
static void aligned_alloc_it(void) { result = aligned_alloc(64, kBytes); }
static void posix_memalign_it(void) {
  if (posix_memalign(&result, 64, kBytes) != 0) result = NULL;
}
static void memalign_it(void) { result = memalign(64, kBytes); }
static void valloc_it(void) { result = freeway_valloc(kBytes); }
static void pvalloc_it(void) { result = freeway_pvalloc(kBytes); }
static void usable_size_of_null(void) {
  if (malloc_usable_size(NULL) != 0) abort();
}
static void trim(void) { freeway_malloc_trim(0); }
static void statistics(void) {
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
}
static void audit(void) {
  freeway_audit_t account;
  if (freeway_audit(&account, sizeof account) != 0) abort();
}
static void huge(void) { result = malloc((size_t)64 << 20); }
static void too_much(void) {
  if (malloc(SIZE_MAX / 2) != NULL || errno != ENOMEM) abort();
}
static void vfork_first(void) {
  pid_t child = vfork();
  if (child == 0) _exit(9);
  int status = 0;
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 9) abort();
}
static void fork_and_allocate(void) {
  pid_t child = fork();
  if (child == 0) _exit(malloc(100) != NULL ? 9 : 1);
  int status = 0;
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 9) abort();
}

static const struct {
  const char* name;
  void (*call)(void);
  int allocates;
} kCalls[] = {{"free(NULL)", free_null, 0},
              {"malloc", malloc_it, 1},
              {"calloc", calloc_it, 1},
              {"realloc", realloc_null, 1},
              {"reallocarray", reallocarray_null, 1},
              {"aligned_alloc", aligned_alloc_it, 1},
              {"posix_memalign", posix_memalign_it, 1},
              {"memalign", memalign_it, 1},
              {"valloc", valloc_it, 1},
              {"pvalloc", pvalloc_it, 1},
              {"malloc_usable_size(NULL)", usable_size_of_null, 0},
              {"malloc_trim", trim, 0},
              {"freeway_stats", statistics, 0},
              {"freeway_audit", audit, 0},
              {"malloc of 64 MiB", huge, 1},
              {"malloc of too much", too_much, 0},
              {"vfork", vfork_first, 0},
              {"fork", fork_and_allocate, 0}};
enum { kCount = sizeof kCalls / sizeof kCalls[0] };

static void call_first(int argc, char** argv) {
  if (argc != 2 || called) return;
  called = 1;
  kCalls[atoi(argv[1])].call();
}
static void before_constructors(int argc, char** argv, char** environment) {
  (void)environment;
  call_first(argc, argv);
}
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char**, char**) = before_constructors;

static void* allocate_and_free(void* argument) {
  for (size_t i = 1; i < 3000; i++) free(memset(malloc(i), 1, i));
  return argument;
}

/* The process must be as good as any other afterwards. */
static int go_on(int index, int early) {
  if ((result != NULL) != kCalls[index].allocates) return 1;
  if (result != NULL) {
    memset(result, 0x5a, kBytes);
    result = realloc(result, 3 * kBytes);
    for (size_t i = 0; i < kBytes; i++)
      if (((unsigned char*)result)[i] != 0x5a) return 2;
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, allocate_and_free, NULL) != 0) return 3;
  pthread_join(thread, NULL);
  free(result);
  freeway_audit_t account;
  if (freeway_audit(&account, sizeof account) != 0) return 4;
  printf("first call %s: %s\n", early ? "before constructors" : "in main", kCalls[index].name);
  fflush(stdout);
  return 0;
}

int main(int argc, char** argv) {
  int early = called;
  call_first(argc, argv);
  if (argc == 2) return go_on(atoi(argv[1]), early);
  for (int i = 0; i < kCount; i++) {
    char index[12];
    snprintf(index, sizeof index, "%d", i);
    pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", argv[0], index, (char*)NULL);
      _exit(126);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      printf("first call %s: failed, wait status %x\n", kCalls[i].name, (unsigned)status);
      return 1;
    }
  }
  return 0;
}
