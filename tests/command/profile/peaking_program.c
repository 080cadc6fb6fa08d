// SPDX-License-Identifier: MIT
// peaking_program.c: has most live in the middle: 400 blocks of 10,000 bytes. It frees all but what it is told.
//   peaking KEEP [wait|handle]
// wait: says so, and waits for a signal; handle: one that it handles, and exits with 5.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBlocks = 400, kBytes = 10000 };

static void* volatile blocks[kBlocks];

__attribute__((noinline)) void fill(void) {
  for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(kBytes);
}

__attribute__((noinline)) void empty(int keep) {
  for (int i = keep; i < kBlocks; ++i) {
    free(blocks[i]);
    blocks[i] = 0;
  }
}

static void leave(int number) {
  (void)number;
  exit(5);
}

int main(int argc, char** argv) {
  fill();
  empty(argc > 1 ? atoi(argv[1]) : 0);
  if (argc < 3) return 0;
  if (strcmp(argv[2], "handle") == 0) signal(SIGTERM, leave);
  (void)!write(1, "waiting\n", 8);
  for (;;) pause();
}
