// SPDX-License-Identifier: MIT
//
// probes_program.c: what probes_test.py traces.
#include <stdlib.h>

static void* volatile kept;

__attribute__((noinline)) void after_first_call(void) { __asm__ volatile(""); }

int main(int argc, char** argv) {
  (void)argv;
  free(kept = malloc(1));
  after_first_call();
  for (int i = 0; i < 10; ++i) {
    kept = malloc(12345);
    free(kept);
  }
  if (argc > 1) return 0;
  // 200 MB, of which some stay: refills are slow mallocs.
  for (int i = 0; i < 100000; ++i) {
    kept = malloc(2000);
    if (i % 2 == 0) free(kept);
  }
  return 0;
}
