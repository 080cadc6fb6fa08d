/* SPDX-License-Identifier: MIT
 *
 * program.c: says what it wants of Freeway, and uses malloc. */
#include <stdlib.h>
#include <string.h>

extern const char* freeway_options;
const char* freeway_options = "HARDEN=1; STATS=1;\n ON_ERROR=much;PURGE=default";

int main(void) {
  for (size_t i = 1; i < 1000; ++i) {
    char* volatile block = malloc(i);
    if (block == NULL) return 1;
    memset(block, 1, i);
    free(block);
  }
  return 0;
}
