// SPDX-License-Identifier: MIT
//
// What is debugged: `program blocks` stands still in checkpoint() with known blocks, `program dies` leaves a core file
// with them; `program calls` is called into while it allocates; `program threads` does so on four threads of one CPU
// until `enough` is set, and checks what it has.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "freeway/freeway.h"

enum { kTaken = 4096, kThreads = 4, kOwn = 64, kSize = 64 };

void *live, *cached, *free_block, *large, *huge;
volatile int enough;

// memset without vector registers: gdb before 14 expects them where Intel saves them. On other processors it reads
// ymm16 and above as 0, and gives a thread zeros back after a call.
static void fill(volatile unsigned char* block, int mark) {
  for (int at = 0; at < kSize; ++at) block[at] = (unsigned char)mark;
}

// What the debugger calls: takes blocks, and lets others run.
void* taken[kTaken];
int takings;
int take(void) {
  for (int i = 0; i < 8; ++i) {
    taken[takings] = malloc(kSize);
    fill(taken[takings++], 0x77);
  }
  free(taken[--takings]);
  return takings;
}
int take_and_wait(void) {
  usleep(5000);
  return take();
}

__attribute__((noinline)) void checkpoint(void) { __asm__ volatile("" ::: "memory"); }

static int fail(const char* what) {
  printf("FAILED: %s\n", what);
  return 1;
}

static int check_taken(void) {
  for (int i = 0; i < takings; ++i)
    for (int at = 0; at < kSize; ++at)
      if (((unsigned char*)taken[i])[at] != 0x77) return fail("a block of the called function was handed out twice");
  return 0;
}

static int blocks(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  void* many[5000];
  live = malloc(100);
  for (int i = 0; i < 5000; ++i) many[i] = malloc(1000);
  free_block = many[2500];
  for (int i = 0; i < 5000; ++i)
    if (i % 2 == 0) free(many[i]);
  malloc_trim(0);
  cached = malloc(200);
  free(cached);
  large = malloc(300000);
  huge = malloc((size_t)300 << 20);
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  printf("%llu small blocks\n", (unsigned long long)stats.live_blocks - 2);
  checkpoint();
  return 0;
}

// One thread: each block that it gets is its own.
static int calls(void) {
  void* own[kOwn];
  free(malloc(kSize));
  checkpoint();
  for (int i = 0; i < kOwn; ++i) {
    own[i] = malloc(kSize);
    fill(own[i], i);
  }
  for (int i = 0; i < kOwn; ++i)
    for (int at = 0; at < kSize; ++at)
      if (((unsigned char*)own[i])[at] != i) return fail("a block of the program was handed out twice");
  for (int i = 0; i < kOwn; ++i) free(own[i]);
  if (check_taken() != 0) return 1;
  freeway_audit_t audit;
  if (freeway_audit(&audit, sizeof audit) != 0) return fail("the heap does not add up");
  printf("all blocks are whole\n");
  return 0;
}

static atomic_int damaged;
static void* work(void* argument) {
  const int mark = (int)(size_t)argument;
  void* own[kOwn];
  while (!enough && !damaged) {
    for (int i = 0; i < kOwn; ++i) {
      own[i] = malloc(kSize);
      fill(own[i], mark);
    }
    for (int i = 0; i < kOwn; ++i) {
      for (int at = 0; at < kSize; ++at)
        if (((unsigned char*)own[i])[at] != mark) damaged = 1;
      free(own[i]);
    }
  }
  return NULL;
}

static int threads(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  pthread_t all[kThreads];
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&all[i], NULL, work, (void*)(i + 1));
  printf("ready\n");
  fflush(stdout);
  for (size_t i = 0; i < kThreads; ++i) pthread_join(all[i], NULL);
  if (damaged) return fail("a block of a thread was handed out twice");
  if (check_taken() != 0) return 1;
  printf("all blocks are whole\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "blocks") == 0) return blocks();
  if (argc == 2 && strcmp(argv[1], "dies") == 0) {
    blocks();
    abort();
  }
  if (argc == 2 && strcmp(argv[1], "calls") == 0) return calls();
  if (argc == 2 && strcmp(argv[1], "threads") == 0) return threads();
  return 2;
}
