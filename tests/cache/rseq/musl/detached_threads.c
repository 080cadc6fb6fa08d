// SPDX-License-Identifier: MIT
//
// Threads by the thousand that nobody waits for, each with some blocks. musl's unmap their own stack and thread-local
// storage before they are gone: a struct rseq that is still registered in it then gets the process killed by the
// kernel. The argument: whether threads are expected to be registered when they have called malloc (1 or 0). NO_KEYS:
// without thread-specific data, which a static program then does not have.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/rseq_layout.h"

enum { kThreads = 20000, kAtOnce = 16, kBlocks = 50 };
static int alive, wrong;

// Whether somebody registered the calling thread: then no other struct can be.
static int is_registered(void) {
  static __thread char other[32] __attribute__((aligned(32)));
  const int free = syscall(SYS_rseq, other, sizeof other, 0, RSEQ_SIGNATURE) == 0;
  if (free) syscall(SYS_rseq, other, sizeof other, RSEQ_UNREGISTER, RSEQ_SIGNATURE);
  return !free;
}

static void use_the_heap(void) {
  unsigned char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; i++) {
    blocks[i] = malloc(20 + i);
    memset(blocks[i], i, 20 + i);
  }
  for (int i = 0; i < kBlocks; i++) {
    for (int at = 0; at < 20 + i; at++)
      if (blocks[i][at] != i) wrong = 1;
    free(blocks[i]);
  }
}

#ifndef NO_KEYS
static pthread_key_t key;

// The program's own destructor comes before or after Freeway's; what it allocates must not register the thread again.
static void at_the_end(void* argument) {
  if (argument != &key) wrong = 1;
  use_the_heap();
}
#endif

static void* live_shortly(void* expected) {
  if (is_registered()) wrong = 1;
  use_the_heap();
  if (is_registered() != (expected != NULL)) wrong = 1;
#ifndef NO_KEYS
  pthread_setspecific(key, &key);
#endif
  __atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

int main(int argc, char** argv) {
  void* expected = argc > 1 && strcmp(argv[1], "1") == 0 ? argv : NULL;
  use_the_heap();
#ifndef NO_KEYS
  pthread_key_create(&key, at_the_end);
#endif
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  for (int made = 0; made < kThreads;) {
    pthread_t thread;
    while (__atomic_load_n(&alive, __ATOMIC_SEQ_CST) >= kAtOnce) usleep(50);
    __atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST);
    if (pthread_create(&thread, &attributes, live_shortly, expected) == 0) {
      made++;
    } else {
      __atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
      usleep(100);
    }
  }
  while (__atomic_load_n(&alive, __ATOMIC_SEQ_CST) != 0) usleep(100);
  if (is_registered() != (expected != NULL)) wrong = 1;
  puts(wrong ? "FAILED" : "passed");
  return wrong;
}
