/* SPDX-License-Identifier: MIT
 * hold.c: holds 8 MB of blocks until its input ends. Like its siblings in other languages, it says "held" and its
 * process id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kCount = 8000, kSize = 1000 };

static char* held[kCount];

int main(void) {
  for (int i = 0; i < kCount; ++i) {
    held[i] = malloc(kSize);
    if (held[i] == NULL) return 1;
    memset(held[i], i, kSize);
  }
  printf("held %d\n", (int)getpid());
  fflush(stdout);
  while (getchar() != EOF) continue;
  for (int i = 0; i < kCount; ++i) free(held[i]);
  return 0;
}
