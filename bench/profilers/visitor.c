// SPDX-License-Identifier: MIT
//
// visitor: the library that storm loads and unloads; it allocates as constructors of C++ libraries do.
#include <stdlib.h>

static void* kept[64];

__attribute__((constructor)) static void come(void) {
  for (int i = 0; i < 64; ++i) kept[i] = malloc(64 + 512 * (size_t)i);
}

__attribute__((destructor)) static void go(void) {
  for (int i = 0; i < 64; ++i) free(kept[i]);
}
