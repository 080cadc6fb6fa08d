// SPDX-License-Identifier: MIT
//
// crashing: a malloc that aborts after some calls.
#include <stdlib.h>

#include "forward.h"

void* malloc(size_t size) {
  static int calls;
  if (++calls > kGoodCalls) abort();
  return __libc_malloc(size);
}
