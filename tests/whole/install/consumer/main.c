/* SPDX-License-Identifier: MIT
 *
 * The public header is C as well as C++.
 */
#include <freeway/freeway.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  char* block = malloc(100);
  if (block == NULL || freeway_malloc_usable_size(block) < 100) return 1;
  memset(block, 1, 100);
  free(block);
  return printf("ok, Freeway %s, from C\n", freeway_version()) > 0 ? 0 : 1;
}
