// SPDX-License-Identifier: MIT
//
// A library with a Freeway of its own in it (libfreeway.a), as plugins have.
#include <string.h>

#include "freeway/freeway.h"

enum { kBlocks = 200, kStep = 37 };

// Whether blocks of many sizes keep what is written into them.
int carrier_works(void) {
  unsigned char* blocks[kBlocks];
  int intact = 1;
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = freeway_malloc((size_t)i * kStep + 1);
    if (blocks[i] == NULL) return 0;
    memset(blocks[i], i, (size_t)i * kStep + 1);
  }
  for (int i = 0; i < kBlocks; ++i) {
    for (int at = 0; at <= i * kStep; ++at) intact &= blocks[i][at] == (unsigned char)i;
    freeway_free(blocks[i]);
  }
  return intact;
}
