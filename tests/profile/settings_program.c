// SPDX-License-Identifier: MIT
//
// settings_program.c: what dumps_test.py profiles: allocates as many bytes as it is told, raises the signals that it is
// told.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* volatile kept;

__attribute__((noinline)) void* leak(size_t size) { return kept = malloc(size); }

__attribute__((noinline)) void* take(size_t size) { return kept = malloc(size); }

// Allocates as many bytes as leak does for that number, and frees them.
static void burst(long bytes) {
  static void* blocks[10000];
  const long count = bytes / 1000;
  for (long i = 0; i < count; ++i) blocks[i] = take(1000);
  for (long i = 0; i < count; ++i) free(blocks[i]);
}

static void own_handler(int number) {
  (void)number;
  (void)!write(1, "own handler\n", 12);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "handler") == 0) {
      signal(SIGUSR1, own_handler);
    } else if (strcmp(argv[i], "raise") == 0) {
      raise(SIGUSR1);
    } else if (strcmp(argv[i], "fork") == 0) {
      fflush(stdout);
      if (fork() == 0) return 0;
    } else if (strcmp(argv[i], "burst") == 0) {
      burst(atol(argv[++i]));
    } else if (strcmp(argv[i], "leave") == 0) {
      _exit(0);
    } else {
      for (long left = atol(argv[i]); left > 0; left -= 1000) leak(1000);
    }
  }
  return 0;
}
