// SPDX-License-Identifier: MIT
#include <stdlib.h>

void wrong_in_library(char* block) {
  free(block + 8);
  __asm__ volatile("");  // no tail call: the caller is this function
}
